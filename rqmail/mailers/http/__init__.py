"""The way out over HTTP: pooled connections, one try a request, and what it means when no answer comes."""
