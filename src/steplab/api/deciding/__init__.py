"""Deciding with a model: how many workers, what meets a deadline, the best configuration, what to measure next."""
