"""Tools beside the run pipeline, one per folder; no tool imports another."""
