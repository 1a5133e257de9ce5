"""From a table to what a model is fitted to: which rows, which columns, and what each column means."""
