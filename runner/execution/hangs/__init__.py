"""Runs that wait: for the rendezvous, or for a rank that makes no progress."""
