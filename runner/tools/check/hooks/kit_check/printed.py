"""Hooks for the figures that the program prints."""

import builtins
import logging
import sys

from kit_check.recorder import recorder


def of_python():
    """Install hooks on print and logging."""
    recorder.hook([builtins], "print", _print)
    recorder.hook([logging.Logger], "handle", _handle)


def _print(*args, **kwargs):
    if kwargs.get("file") in (None, sys.stdout, sys.stderr):
        _emit(" ".join(map(str, args)))


def _handle(logger, record):
    if logger.isEnabledFor(record.levelno) and not logger.name.startswith(("torch", "c10d")):
        _emit(record.getMessage())


def _emit(text):
    place = recorder.place()
    if place and any(letter.isdigit() for letter in text):
        recorder.emit("print", text=text[:300], place=place)
