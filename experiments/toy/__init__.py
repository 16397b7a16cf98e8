"""The smallest training over several nodes: for the launch, not for the model."""
