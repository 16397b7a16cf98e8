"""`runner doctor`: diagnose a machine, its containers, its cluster and its peers without changing anything."""
