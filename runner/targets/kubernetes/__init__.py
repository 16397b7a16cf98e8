"""Target `kubernetes`: one pod per node."""
