"""Commands that podwright did not write: a `vllm serve` line, a shell script, a Docker Compose file, a Kubernetes manifest.

They are read into a `Launch`, judged by the rules that need nothing else, and turned into specs.
"""
