"""Measurements as something to read: which there are, how two of them differ, and what they look like drawn."""
