"""Summaries of logs, as by `runner collect`."""

import io
from typing import Any

from runner.logs.reading import read_stream
from runner.logs.summary import summary


def read_text(text: str | bytes) -> dict[str, Any]:
    """Return the summary of a log."""
    return summary("log", read_stream(io.BytesIO(text if isinstance(text, bytes) else text.encode()).read))
