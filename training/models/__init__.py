"""The embedded model, and item tokens for any other model."""
