"""Designs: from factors and levels to the list of trials to measure, one file per type of design.

A design file holds `configurations(study, rng, possible) -> list of configurations`; it is found by its name.
"""
