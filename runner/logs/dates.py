"""The lines that `date` prints at the beginning and the end of a job script.

They have a time zone, unlike the date that nvidia-smi prints. Only the beginning and the end of a log are searched.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

WINDOW = 65_536
"""Bytes at the beginning and at the end of a log."""
_DATE = re.compile(
    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
    r"(?:(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2})|(?P<day2>\d{1,2}) (?P<month2>[A-Z][a-z]{2}) (?P<year2>\d{4})) "
    r"(?P<time>\d\d:\d\d:\d\d)(?: (?P<half>[AP]M))? (?P<zone>[A-Z]{2,5}|[+-]\d\d(?::?\d\d)?)(?: (?P<year>\d{4}))?\b"
)


class Date(NamedTuple):
    """A date of a job script.

    `zone` are the letters of its time zone, whose offset nobody knows: CST is three. An offset is in `moment` instead.
    """

    moment: datetime
    line: int
    zone: str = ""


def dates(text: str, line: int) -> list[Date]:
    """Return the dates in some lines, of which the first has this number."""
    found = []
    for one in _DATE.finditer(text):
        words = (
            f"{one['year'] or one['year2']} {one['month'] or one['month2']} {one['day'] or one['day2']} {one['time']}"
        )
        zone = one["zone"]
        try:
            offset = timezone.utc if zone.isalpha() else _offset(zone)
            moment = datetime.strptime(words, "%Y %b %d %H:%M:%S").replace(tzinfo=offset)
        except ValueError:
            continue
        if one["half"]:
            moment = moment.replace(hour=moment.hour % 12 + (12 if one["half"] == "PM" else 0))
        number = line + text.count("\n", 0, one.start())
        found.append(Date(moment, number, zone if zone.isalpha() else ""))
    return found


def span_seconds(first: Date, last: Date) -> float | None:
    """Return the time between two dates; None if nobody knows how far their zones are apart."""
    return (last.moment - first.moment).total_seconds() if first.zone == last.zone else None


def _offset(zone: str) -> timezone:
    """Read `-03`, `+0530` or `+05:30`; ValueError for a day or more."""
    digits = zone[1:].replace(":", "")
    east = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-east if zone[0] == "-" else east)
