"""Decoding: free, constrained to the catalogue, and many answers to one prompt."""
