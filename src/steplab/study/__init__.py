"""A study as a person declares it: read from its file, checked, and each configuration resolved."""
