"""Target `ssh`: hosts that a person reaches by SSH, one torchrun on each."""
