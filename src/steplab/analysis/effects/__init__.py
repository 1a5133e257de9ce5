"""Designed experiments: effects, interactions, ANOVA, contrasts, checks."""
