"""How many cases the fuzz tests try: more than 4,000 in all."""

DEFINITIONS = 500
"""Of each of four properties."""
RECORDS = 1_500
RAW_FOLDERS = 600
MOST_SECONDS = 2.0
"""Of processor time, for one case."""
