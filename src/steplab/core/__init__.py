"""The vocabulary: study, trial, record, units, errors. Imports nothing of the machinery."""
