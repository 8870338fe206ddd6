"""Rules about the KV cache, state caches and prefix caching."""
