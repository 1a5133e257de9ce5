"""Studies that were run: their tables, findings, report, exports and rooflines."""
