"""Checks of a machine, its containers, its cluster and its peers, before a run is started. It changes nothing."""
