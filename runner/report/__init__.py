"""Reduce records to table rows, compare the rows, and write them as text."""
