"""How a mail reaches a provider: start at ``factory``, then ``rate_limited``, ``graph`` and ``graph_errors``."""
