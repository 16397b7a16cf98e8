"""The smallest training there is over several nodes: for the launch, not for the model."""
