"""Runs inside a framework's environment: standard library and NumPy only, syntax of Python 3.8."""
