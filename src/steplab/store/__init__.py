"""Records on disk, and tables over them."""
