"""The charts, one file for each family; a chart takes the report's data and returns a figure, or None without data."""
