"""Records of runs in `results/`: writing, reading and parsing them."""
