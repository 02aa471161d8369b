"""Where people review: one review tool per file, and what tools share."""
