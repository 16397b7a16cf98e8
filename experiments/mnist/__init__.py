"""MNIST in several programs with the same model; compare them pairwise."""
