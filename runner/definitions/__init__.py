"""YAML -> Experiment -> Runs: what is to be run."""
