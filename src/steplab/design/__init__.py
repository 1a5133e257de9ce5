"""Designs: from factors and levels to the plan of trials to measure, one file per type of design.

A design file holds `configurations(study, rng, possible) -> Configurations`; it is found by its name.
"""
