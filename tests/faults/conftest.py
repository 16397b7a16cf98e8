"""The targets as the contract's tests see them."""

from __future__ import annotations

from tests.contract.conftest import harness

__all__ = ["harness"]
