"""Evaluates answers: figures, rewards, and the figures of the paper."""
