"""How many cases the fuzz tests try: the variable KIT_FUZZ is a factor.

At 1 they try more than 10,000 cases, as `.ci/run` does; a fifth of them is enough for the way of working.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("KIT_FUZZ", "0.2"))
DEFINITIONS = int(700 * FACTOR)
"""Of each of six properties."""
RECORDS = int(2_000 * FACTOR)
EVENT_LINES = int(3_100 * FACTOR)
LOGS = int(5_000 * FACTOR)
RAW_FOLDERS = int(900 * FACTOR)
MOST_SECONDS = 2.0
"""Of processor time, for one case."""
