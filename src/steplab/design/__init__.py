"""Designs: from factors and levels to the list of configurations to measure."""
