"""Runs trials: environments, rank processes, campaigns."""
