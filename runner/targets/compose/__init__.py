"""Target `compose`: one container for each node, on this machine's Docker Engine."""
