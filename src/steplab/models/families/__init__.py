"""Models that others are made from: regressions, learners with settings, a person's own formula."""
