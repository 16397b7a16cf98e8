"""Target `kubernetes`: one pod for each node."""
