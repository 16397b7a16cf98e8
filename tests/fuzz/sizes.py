"""How many cases the fuzz tests try: a person turns them up here, or with the variable KIT_FUZZ, a factor."""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("KIT_FUZZ", "1"))
RECORDS = int(2_000 * FACTOR)
EVENT_LINES = int(3_100 * FACTOR)
RAW_FOLDERS = int(900 * FACTOR)
MOST_SECONDS = 2.0
"""Of processor time, for one case."""
