"""Rules about quantization and kernels."""
