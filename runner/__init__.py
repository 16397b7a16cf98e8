"""Runs experiments in distributed training and makes tables of them that one can believe."""

__version__ = "0.1.0"
