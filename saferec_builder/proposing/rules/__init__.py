"""The proposer that needs no model: cues and the grammar around them."""
