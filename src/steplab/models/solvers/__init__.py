"""Numerical work behind the models: variable projection, regressions, searches, penalties."""
