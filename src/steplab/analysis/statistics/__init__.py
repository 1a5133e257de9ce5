"""Statistics that several analyses share: intervals, moderated variances, simultaneous comparisons."""
