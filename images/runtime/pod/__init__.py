"""The runtime: the program that owns everything in a pod. `pod.contract` is what it shares with the compiler."""

__version__ = "0.1.0"
