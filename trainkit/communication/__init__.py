"""What the ranks of a training exchange, and how often: the choices behind `--communication`.

A program builds one exchange, calls its model, and reports each step to it; docs/methods.md says what each
choice changes in the mathematics::

    settle(args)  # the options' defaults
    with running("mnist.ddp", args) as run:
        check(args)
        run.join()
        ...
        exchange = build(args, run, model)
        for part in exchange.accumulated(parts):
            loss = ... exchange.model(part.images) ...
            loss.backward()
        optimizer.step()
        exchange.stepped()

Gradients are the mean over the samples of all ranks if each rank's loss is the sum over its own samples, times the
number of ranks, over the samples of all.
"""

from argparse import Namespace

from torch import nn

from trainkit.communication.averages import DiLoCo, LocalSgd
from trainkit.communication.exchange import Exchange
from trainkit.communication.gradients import HalfPrecision, LowRank, OneMachine, PlainDdp
from trainkit.communication.options import check, check_batch, settle
from trainkit.run import Run

__all__ = ["Exchange", "build", "check", "check_batch", "settle"]


def build(args: Namespace, run: Run, model: nn.Module, *, broadcast_buffers: bool = True) -> Exchange:
    """Return the exchange that `args` names; all ranks call it, and have rank 0's model when it returns.

    Args:
        args: with what `trainkit.arguments.add_communication` declares, settled; and, for powersgd, a `seed`.
        run: joined.
        model: on its device.
        broadcast_buffers: whether DistributedDataParallel gives all ranks rank 0's buffers before each forward pass.

    Raises:
        Refusal: the backend or the model cannot have this communication.
    """
    name = args.communication
    if name in ("fp16", "bf16"):
        return HalfPrecision(run, model, name, broadcast_buffers=broadcast_buffers)
    if name == "shared-memory":
        return OneMachine(run, model, broadcast_buffers=broadcast_buffers)
    if name == "powersgd":
        return LowRank(run, model, args.powersgd_rank, args.seed, broadcast_buffers=broadcast_buffers)
    if name == "local-sgd":
        return LocalSgd(run, model, args.sync_every)
    if name == "diloco":
        return DiLoCo(run, model, args.sync_every, args.outer_lr, args.outer_momentum)
    return PlainDdp(run, model, broadcast_buffers=broadcast_buffers)
