"""Review tools, one per file, with the same verbs in each; and the one page that every reviewer reads."""
