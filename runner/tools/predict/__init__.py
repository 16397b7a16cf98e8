"""What to expect of more processes: a model of a training step, what it is made from, and how both are shown."""

MEASURE = "round_trip_seconds"
"""What runs that measure a network are compared by."""
