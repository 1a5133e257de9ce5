"""What other programs wrote: tables of times, traces, kernels, networks."""
