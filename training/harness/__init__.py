"""A release as a benchmark for other harnesses: scores of one answer, and tasks of Inspect and lm-eval."""
