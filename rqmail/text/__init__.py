"""Text from people and files: decoded, freed of invisible edges, checked; and without secrets where it is shown."""
