"""Operations of `torch.distributed`: their values, their speed, and the network below."""
