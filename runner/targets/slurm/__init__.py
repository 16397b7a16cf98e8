"""Target `slurm`: a batch job of a Slurm cluster for each run."""
