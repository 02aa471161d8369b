"""What answers are worth: as figures, as rewards, and as the paper counts."""
