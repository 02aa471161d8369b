"""Turns conversations into proposals: by rules, by models, or by a cascade of both."""
