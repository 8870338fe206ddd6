"""podwright: a compiler from short YAML specs to GPU pods that serve an open model."""

__version__ = "0.1.0"
