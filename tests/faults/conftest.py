"""The fixture `harness` of the contract's tests."""

from tests.contract.conftest import harness

__all__ = ["harness"]
