"""The figures that a document published, as a table of their own beside the measured one."""

from typing import Any

from runner.report.rows import Block

TIMES = ("total_seconds", "train_seconds", "round_trip_seconds")


def published_grid(block: Block) -> tuple[str, list[str], list[list[str]]]:
    """Return the title, the head and the lines of the published rows: their own figures, and what follows from them.

    `speed-up` is what the document's own times give; `printed` is what it prints.
    """
    if not block.definition.get("published"):
        return "", [], []
    from runner.definitions.published import figures  # with all that reads a definition

    rows, measure, axes = figures(block.definition), block.first.measure, block.axes
    times = {_time(row, measure) for row in rows} - {""}
    best = all("accuracy" not in row for row in rows)
    head = ["layout", *axes, "hardware", next(iter(times)).replace("_", " ") if len(times) == 1 else "seconds"]
    head += ["speed-up", "printed", "efficiency", "best accuracy" if best else "accuracy", "val loss"]
    lines = []
    for row in rows:
        computed, printed, losses = row.get("computed_speedup"), row.get("speedup"), row.get("val_loss")
        cells = [str(row.get(key, "")) for key in ("layout", *axes, "hardware")]
        time = _time(row, measure)
        what = f" {time.removesuffix('_seconds').replace('_', ' ')}" if len(times) > 1 else ""
        cells.append(f"{row[time]:g}{what}" if time else "")
        cells.append(f"{computed:.2f}" if computed else "")
        cells.append(f"{printed:g}" if printed else "")
        cells.append(f"{computed / row['devices']:.0%}" if computed and row.get("devices") else "")
        accuracy = row.get("accuracy") or row.get("best_accuracy")
        of_which = " best" if not best and "accuracy" not in row else ""
        cells.append(f"{accuracy:.2%}{of_which}" if accuracy else "")
        cells.append(f"{losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} epochs" if losses else "")
        lines.append(cells)
    return f"published: {block.definition['published']['source']}", head, lines


def published_notes(block: Block) -> list[str]:
    """Return what the definition says of single published rows."""
    found = []
    for row in (block.definition.get("published") or {}).get("rows", []):
        if said := [row[key] for key in ("where", "note") if row.get(key)]:
            time = _time(row, block.first.measure)
            cell = [str(row[axis]) for axis in ("layout", *block.first.axes) if axis in row]
            figure = [f"{row[time]:g} s"] if time else []
            found.append(f"published: {', '.join([' '.join(cell), row['hardware'], *figure])}: {'; '.join(said)}")
    return found


def _time(row: dict[str, Any], measure: str) -> str:
    """Name the time that a row shows: the one that is compared, else another."""
    return next((key for key in (measure, *TIMES) if key in TIMES and row.get(key)), "")
