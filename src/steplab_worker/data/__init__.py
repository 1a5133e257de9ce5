"""Data sets: one file per format."""
