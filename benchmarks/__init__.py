"""Measurements for docs/performance.md: ``python -m benchmarks --help``."""
