"""Files become conversations: people pseudonyms, personal data placeholders."""
