"""Rows that a fit has not seen: folds, ranges, and the prediction intervals that come of them."""
