"""Training programs that say what they do in event lines and run with plain torchrun."""
