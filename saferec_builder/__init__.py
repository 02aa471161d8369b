"""SafeRec Builder: personal-safety datasets for conversational recommenders."""

__version__ = "0.1.0"
