"""Checks over specs, plan and artifacts."""
