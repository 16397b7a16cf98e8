"""Benchmarks of `make bench`, kept apart from tests because times on a shared machine vary."""
