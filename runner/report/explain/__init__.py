"""Where the time of a run went, which rank or link keeps the others waiting, and why."""
