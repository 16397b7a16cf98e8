"""Runs $PROGRAM with its function $SABOTAGE disabled, and saves rank 0's parameters in $KEEP."""

import importlib
import os

import torch
from torch import nn

from experiments.mnist.training import Report

module = importlib.import_module(f"experiments.{os.environ['PROGRAM']}")
if os.environ["SABOTAGE"]:
    setattr(module, os.environ["SABOTAGE"], lambda *_: None)
finish = Report.finish


def finish_and_keep(report: Report, model: nn.Module) -> None:
    finish(report, model)
    if report.run.first:
        torch.save(model.state_dict(), os.environ["KEEP"])


Report.finish = finish_and_keep  # type: ignore[method-assign]

if __name__ == "__main__":
    module.main()
