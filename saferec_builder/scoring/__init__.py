"""A list of items that a system wrote, and what it is worth; standard library and numpy."""
