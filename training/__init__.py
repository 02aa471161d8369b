"""Reads a release and trains on it; needs no data-side package but the base files. Imports nothing."""
