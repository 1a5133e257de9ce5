"""A cluster in a box: hosts made of network namespaces on this machine, with lines between them that can be slow."""
