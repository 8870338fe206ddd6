"""Repairs that a model or an engine needs before it starts: declared in specs, applied once, refused where they do not fit."""
