"""What a program takes: one argument, and all of them together."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

REPEATED, LISTED = "repeat", "words"
TYPED = "-~"
"""How words begin that no source declares, and that are passed on as they are typed: `--multirun`, `~db`."""


def spell(value: object) -> str:
    """Write a value as most parsers take it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Style(NamedTuple):
    """The rules of one library: how a value that is no boolean is written, and the words for true and false."""

    write: Callable[[object], str]
    joined: bool = False
    """Always `--key=value`, one word."""
    assigns: bool = False
    """`key=value`, without hyphens."""
    truth: tuple[str, str] = ("true", "false")


WORDS = Style(spell)
JOINED = Style(spell, joined=True)


class Option(NamedTuple):
    """One argument as its program declares it.

    Args:
        spelling: the word of the command line; without a hyphen it is a positional argument, or, in a style that
            assigns, the name before the equals sign.
        kind: `int`, `float`, `flag` (it stands there or it does not), `switch` (`--amp`, `--no-amp`), `bool`
            (`--amp true`), `typed` (passed on as a person typed it), or `value` for anything else.
        choices: empty if any value is taken, or if they cannot be read from the source.
        least: the least whole number.
        required: it has no default.
        default: the default, if it stands in the source as a number, a text, true or false; else None.
        off: the word that says no to a switch; empty for `--no-<name>`.
        many: `repeat` (`--x 1 --x 2`) or `words` (`--x 1 2`) for an argument of several values; empty for one of one.
        style: how its value is written.
        truth: the words for true and false.
        depth: 0 stands before the name of a subcommand, 1 is that name, 2 stands behind it.
        commands: the subcommands that take it; empty if every one does, or if that cannot be read from the source.
        aliases: its other words on the command line, `-b` for `--batch-size`.
    """

    spelling: str
    kind: str = "value"
    choices: tuple[object, ...] = ()
    least: int | None = None
    required: bool = False
    default: object = None
    off: str = ""
    many: str = ""
    style: Style = WORDS
    truth: tuple[str, str] = ("true", "false")
    depth: int = 0
    commands: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def positional(self) -> bool:
        """Return whether its value stands alone, without a name."""
        return not self.spelling.startswith("-") and not self.style.assigns

    def refuses(self, value: object) -> str | None:
        """Return what the program takes, if this value is something else."""
        is_bool = isinstance(value, bool)
        if self.kind in ("flag", "switch", "bool"):
            return None if is_bool else "true or false"
        if self.kind == "int" and (not isinstance(value, int) or is_bool):
            return "a whole number" + ("" if self.least is None else f", at least {self.least}")
        if self.least is not None and isinstance(value, int) and value < self.least:
            return f"a whole number, at least {self.least}"
        if self.kind == "float" and (not isinstance(value, int | float) or is_bool):
            return "a number"
        if self.choices and not self.many and str(value) not in map(str, self.choices):
            return "one of " + ", ".join(map(str, self.choices))
        return None

    def words(self, value: object) -> list[str]:
        """Write it with a value as words of the command line."""
        if value is True and self.kind == "typed":
            return [self.spelling]
        if self.kind in ("flag", "switch") and not self.positional:
            no = [self.off or f"--no-{self.spelling[2:]}"] if self.kind == "switch" else []
            return [self.spelling] if value else no
        texts = self._texts(value)
        if self.positional:
            return texts
        if self.many == LISTED:
            return [self.spelling, *texts]
        return [word for text in texts for word in self._named(text)]

    def _texts(self, value: object) -> list[str]:
        if isinstance(value, bool):
            return [self.truth[0 if value else 1]]
        if self.many and isinstance(value, str):
            try:
                return [self.style.write(text) for text in shlex.split(value)]
            except ValueError:  # an odd quotation mark
                return [spell(value)]
        return [self.style.write(value)]

    def _named(self, text: str) -> list[str]:
        if self.style.joined:
            return [f"{self.spelling}={text}"]
        if not text.startswith("-"):
            return [self.spelling, text]
        # Parsers take a word that begins with a hyphen, as -1e-3, for an option of its own.
        is_letter = not self.spelling.startswith("--") and len(self.spelling) == len("-x")
        return [self.spelling + text if is_letter else f"{self.spelling}={text}"]


@dataclass(frozen=True)
class Configuration:
    """A file of settings that a program reads by itself: YAML, JSON or TOML.

    `key` is the argument that names the file, and `path` the file, from the folder where the program is started, as
    the source or the argument's default says it; each is empty if none is seen.
    """

    form: str
    key: str = ""
    path: str = ""


@dataclass(frozen=True)
class Interface:
    """What a program takes on its command line.

    Args:
        kind: the library that reads the command line, for example `argparse`; `yaml` for a program that reads nothing
            but a file of settings.
        options: the arguments by their keys, `batch_size`.
        is_open: it may take more than its source shows; an argument that is not among the options is passed on.
        style: how such an argument is written.
        short: arguments of its libraries, which its source does not show, that make a first try short.
        configuration: the file of settings that it reads.
    """

    kind: str
    options: dict[str, Option] = field(default_factory=dict)
    is_open: bool = False
    style: Style = WORDS
    short: dict[str, object] = field(default_factory=dict)
    configuration: Configuration | None = None

    @property
    def is_unseen(self) -> bool:
        """Return whether it reads its command line by hand, so that nothing says which arguments it takes."""
        return self.is_open and self.kind in ("plain", "yaml")

    def of_subcommand(self, args: dict[str, Any]) -> "Interface":
        """Return what it takes with the subcommand that args name: nothing that only the others take."""
        named = [key for key, option in self.options.items() if option.depth == 1]
        chosen = {str(args[key]) for key in named if args.get(key) is not None}
        if not chosen:
            return self
        options = self.options.items()
        own = {key: option for key, option in options if not option.commands or chosen & {*option.commands}}
        return replace(self, options=own)

    def option(self, key: str) -> Option:
        """Return what is known of an argument; of one that is not seen, only how it is written."""
        if key in self.options:
            return self.options[key]
        behind = 2 if any(option.depth for option in self.options.values()) else 0
        if key[0] in TYPED:
            return Option(key, "typed", style=self.style, depth=behind)
        return Option(key if self.style.assigns else f"--{key}", style=self.style, truth=self.style.truth, depth=behind)
