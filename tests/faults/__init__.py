"""The fault campaign: every fault that a pod must survive, done to a living runtime while clients hammer its endpoint.

`python -m tests.faults` (`make faults`) runs all of it, tells each result as it comes, and writes `build/faults.json` and the table in
docs/reliability.md. A real vLLM on the CPU plays wherever one can; the toy engine where only a program that misbehaves on command can.
"""
