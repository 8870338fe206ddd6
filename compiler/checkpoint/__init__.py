"""A checkpoint's own files to a model spec. Pure: bytes in, facts and findings out; `deploy.checkpoint` brings the bytes."""

from __future__ import annotations

from compiler.checkpoint.facts import CheckpointFacts, CheckpointFiles, checkpoint_facts
from compiler.checkpoint.spec_text import model_spec_text

__all__ = ["CheckpointFacts", "CheckpointFiles", "checkpoint_facts", "model_spec_text"]
