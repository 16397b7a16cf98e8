"""Carry out runs: a plan, one node started by hand, or a job that somebody else created."""
