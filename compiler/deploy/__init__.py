"""What leaves the machine: look-ups on the Hub and at registries, and builds in a Docker engine.

Nothing of this layer is imported by the compiler proper, so that a build of a bundle needs no network and no engine.
"""
