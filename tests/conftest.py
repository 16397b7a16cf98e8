"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("kit", deadline=None)  # two cores that several share make no promise about time
settings.load_profile("kit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; then read the diff")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
