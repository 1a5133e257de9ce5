"""Models judged on rows and ranges that they have not seen, and their prediction intervals."""
