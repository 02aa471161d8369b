"""A release as a benchmark of other harnesses: what one answer is worth, and tasks of Inspect and lm-eval."""
