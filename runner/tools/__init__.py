"""What stands beside the pipeline: each folder a tool with its commands; no tool knows another."""
