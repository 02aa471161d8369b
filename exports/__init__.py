"""A release to the outside: rows that trainers read, a folder that can be checked, a card, the Hub."""
