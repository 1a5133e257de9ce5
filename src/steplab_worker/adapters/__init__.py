"""Adapters: one file per framework, found by its name."""
