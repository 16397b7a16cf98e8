"""The targets as the contract's tests see them."""

from tests.contract.conftest import harness

__all__ = ["harness"]
