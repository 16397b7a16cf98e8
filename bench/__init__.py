"""The benchmarks of `make bench`: not tests, since times on a shared machine pass and fail at random."""
