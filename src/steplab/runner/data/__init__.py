"""The data that trials read: real files or generated ones, provided and checked."""
