"""From tables to findings; never opens a file."""
