"""`make bench`: the figures that are promised, measured in pairs within one run."""

import argparse

from bench import (
    bert,
    collectives,
    compose,
    efficiency,
    first_step,
    load,
    loader,
    marks,
    mlflow_search,
    nodes,
    overhead,
    parsing,
    slurm,
    ssh,
    startup,
    summary,
)

PARTS = {
    "startup": startup,
    "parsing": parsing,
    "summary": summary,
    "mlflow": mlflow_search,
    "loader": loader,
    "load": load,
    "marks": marks,
    "collectives": collectives,
    "bert": bert,
    "efficiency": efficiency,
    "overhead": overhead,
    "first-step": first_step,
    "compose": compose,
    "ssh": ssh,
    "slurm": slurm,
    "nodes": nodes,
}


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of: {', '.join(PARTS)}")
    names = parser.parse_args().parts or list(PARTS)
    for name in names:
        if name not in PARTS:
            parser.error(f"no part '{name}'; there are {', '.join(PARTS)}")
        PARTS[name].main()


if __name__ == "__main__":
    main()
