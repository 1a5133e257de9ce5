"""The columns of the table `trials` that tell of memory, in bytes, all of the rank that took most."""

MEMORY = (
    "memory_bytes",  # the process's peak
    "memory_before_bytes",  # what it had before the trial
    "memory_parameter_bytes",  # the rest: what its framework tells of its arrays
    "memory_state_bytes",
    "memory_device_bytes",
    "memory_reserved_bytes",
)
