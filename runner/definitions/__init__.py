"""Experiment definitions, from YAML file to list of runs."""
