"""Detect and explain runs that hang, at the rendezvous or in training."""
