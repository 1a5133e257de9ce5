"""One file for each source: its studies, the tables of its page, its questions."""
