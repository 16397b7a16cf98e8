"""Carries out runs: one after the other, one node started by hand, and a job that somebody else created."""
