"""How many cases the fuzz tests try: more than 10,000 in all."""

DEFINITIONS = 700
"""Of each of six properties."""
RECORDS = 2_000
EVENT_LINES = 3_100
LOGS = 5_000
RAW_FOLDERS = 900
MOST_SECONDS = 2.0
"""Of processor time, for one case."""
