"""Measurements, each a command that prints ratios of one run: ``python -m benchmarks.<name>``."""
