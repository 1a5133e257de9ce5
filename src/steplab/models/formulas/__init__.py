"""Formulas that a person can read: one tree for Python and the browser, parsed, printed, evaluated."""
