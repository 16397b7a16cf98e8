"""MNIST in five programs; the difference between two of them is the lesson."""
