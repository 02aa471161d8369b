"""A small page of our own on which people review: links, the queue in memory, the web application, and its files."""
