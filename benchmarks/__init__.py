"""Speed and memory, measured beside others on the same work: ``python -m benchmarks``."""
