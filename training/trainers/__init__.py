"""Training with TRL's trainers: settings, advantages and checkpoints."""
