"""This computer: its frameworks, its data sets, its noise."""
