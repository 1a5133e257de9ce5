"""What a network costs: FLOPs, bytes, parameters, from its graph alone."""
