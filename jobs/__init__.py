"""What RQ workers import: the functions they call by name."""
