"""The network between hosts: its profile, and what it does to a training step."""
