"""Benchmarks: each file prints figures; `make bench ONLY=oracle` runs one. Nothing here asserts a time."""
