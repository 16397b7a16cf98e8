"""Can a run be believed and repeated: its levels of proof, what compares two runs, and one archive for a reviewer."""
