"""Which trials to measure next: pure functions of what was measured, the space, the aim and a seed."""
