"""People look: where mail stands, how much budget is left, and why nothing goes out."""
