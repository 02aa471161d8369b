"""Conversations become proposals: by rules, by models, by a cascade of both."""
