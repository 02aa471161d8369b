"""The proposer without a model: finds cues, and reads the grammar around them."""
