"""Performance models: one file each, found by name."""
