"""The workspace on disk: its tables, its settings, and parallel work on its shards."""
