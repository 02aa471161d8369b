"""Forgetting a person: nothing of theirs is left in a workspace, and whoever asked gets a receipt."""
