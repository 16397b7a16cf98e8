"""Target `ssh`: one torchrun on each of several hosts."""
