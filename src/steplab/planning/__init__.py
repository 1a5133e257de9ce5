"""Predictions and what to do with them; never opens a file."""
