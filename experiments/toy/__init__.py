"""The smallest training over several nodes, to test the launch."""
