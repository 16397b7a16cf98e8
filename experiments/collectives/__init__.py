"""How ranks talk: every operation of `torch.distributed` with its values, its speed, and the network below."""
