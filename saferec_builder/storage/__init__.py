"""The workspace on disk: its tables, its settings, and shards of work over it."""
