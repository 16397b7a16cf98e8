"""Run the benchmarks of `make bench`, which compare times in pairs within one run."""

import argparse
from importlib import import_module

PARTS = ("startup", "parsing", "summary", "load", "marks", "observer")


def main() -> None:
    """Run the named parts, or all."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of: {', '.join(PARTS)}")
    names = parser.parse_args().parts or PARTS
    for name in names:
        if name not in PARTS:
            parser.error(f"unknown part '{name}'; choose from {', '.join(PARTS)}")
        import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
