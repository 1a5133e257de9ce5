"""The executor `slurm`: a job is a laboratory inside an allocation that takes trial after trial of one shape."""
