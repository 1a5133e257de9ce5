"""Layers, phases and kernels under the roofs of a machine."""
