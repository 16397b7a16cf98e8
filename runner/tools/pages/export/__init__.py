"""Records for other tools: what a run was given and what it measured, in their own stores. Again changes nothing."""
