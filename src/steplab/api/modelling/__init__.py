"""Performance models: rows to fit, fitting, comparing, predicting, saved models."""
