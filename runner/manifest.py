"""Values -> text that is the same byte for byte each time."""

from __future__ import annotations

import json


def to_json(value: object) -> str:
    """Write plain values as JSON, in the order that they have."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"
