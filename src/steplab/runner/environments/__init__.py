"""Framework environments: created, registered, found; worker code started in them."""
