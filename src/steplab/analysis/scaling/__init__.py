"""How a study scales with the workers: speed-ups, laws, imbalance, lost time and what would help."""
