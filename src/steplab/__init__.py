"""steplab: a laboratory for the time of a deep-learning step."""

__version__ = "0.3.0.dev0"
