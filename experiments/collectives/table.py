"""The measured rows as a table, and the few that a record keeps by name."""

Row = tuple[str, dict[str, float]]
"""An operation at one size: `bytes`, `seconds`, `min_seconds` and, if it has a size, its two bandwidths."""

HEADLINES = ("all_reduce", "ring_all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast", "isend")
TITLES = ("bytes", "mean us", "min us", "algbw GB/s", "busbw GB/s")


def headlines(rows: list[Row]) -> dict[str, float]:
    """Return the time and the bus bandwidth of some operations at the largest size."""
    largest = dict(rows)
    stats = {}
    for name in HEADLINES:
        if row := largest.get(name):
            stats[f"{name}_seconds"] = row["seconds"]
            stats[f"{name}_bus_bytes_per_second"] = row["bus_bytes_per_second"]
    return stats


def table(rows: list[Row], ranks: int) -> str:
    """Write the rows in microseconds and, as nccl-tests does, in 10^9 bytes a second."""
    lines = [f"{ranks} ranks", f"{'operation':24}" + "".join(f"{title:>12}" for title in TITLES)]
    for name, row in rows:
        numbers = [f"{row['bytes']:.0f}", f"{1e6 * row['seconds']:.1f}", f"{1e6 * row['min_seconds']:.1f}"]
        numbers += [f"{row[key] / 1e9:.3f}" for key in row if key.endswith("bytes_per_second")]
        lines.append(f"{name:24}" + "".join(f"{number:>12}" for number in numbers))
    return "\n".join([*lines, ""])
