"""Rules about what a model needs: parsers, releases, parallelism, names, media."""
