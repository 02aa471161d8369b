"""The toolkit's own review page: links, the queue in memory, the web application, and its static files."""
