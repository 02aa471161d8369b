"""TRL's trainers, and what is decided around a run."""
