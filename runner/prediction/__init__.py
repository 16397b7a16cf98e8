"""What to expect of more processes: a model of a training step, what it is made from, and how both are shown."""
