"""The base of every package: errors, the taxonomy, titles, the safety oracle. Standard library and numpy only."""
