"""How things are written on a terminal."""
