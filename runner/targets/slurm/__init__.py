"""Target `slurm`: one Slurm batch job per run."""
