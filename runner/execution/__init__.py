"""Carry out the runs of a plan, run one node by hand, or follow a job that somebody else created."""
