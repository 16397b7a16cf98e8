"""Reproducible distributed-training experiments, with results you can defend."""

__version__ = "0.1.0"
