"""Running the sources again: their studies, the small tables of their records, their pages."""
