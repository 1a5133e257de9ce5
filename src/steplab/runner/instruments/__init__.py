"""What is measured beside the step: the machine, its ceilings, energy, GPUs, throttling, other load."""
