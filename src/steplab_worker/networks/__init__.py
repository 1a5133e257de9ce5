"""Networks: one file each, described once for all frameworks."""
