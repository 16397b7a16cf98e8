"""What a run leaves in `results/`, and what is read from that."""
