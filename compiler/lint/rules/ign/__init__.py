"""Rules about findings that a profile accepts."""
