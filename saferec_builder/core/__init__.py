"""Words that every package needs: errors, the taxonomy, titles, the oracle; stdlib and numpy."""
