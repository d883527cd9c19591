"""One text for many people, and who must not get it."""
