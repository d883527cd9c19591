"""Mail comes in: what is handed in is read, checked, and only then becomes messages that wait."""
