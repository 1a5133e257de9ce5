"""Studies before and while they run: a starter, the plan, the run, how far it is."""
