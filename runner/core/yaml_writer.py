"""Write values as YAML or JSON. The same values always give the same bytes."""

import io
import json
import re
from functools import cache

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter

# Texts that every reader of YAML 1.1 and 1.2 takes for text even without quotes. They begin like a word, an option, a
# path or a variable, have no character with a meaning in YAML, and are none of the words below.
_PLAIN = re.compile(r"(?:-{0,2}[A-Za-z]|[/$]|\.{1,2}/)(?:[A-Za-z0-9 ./_@$(){}+=-]|:(?=[^\s]))*(?<![\s:])")
_WORDS = {"y", "yes", "n", "no", "on", "off", "true", "false", "null", "nan", "inf"}


def to_json(value: object) -> str:
    """Write plain values as JSON, keeping the order of keys."""
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def to_yaml(value: object, header: str = "") -> str:
    """Write plain values as YAML that versions 1.1 and 1.2 read alike. The header comes first, as a comment.

    Text that a reader could take for a number, a boolean or a time (`no`, `1e3`, `20:30`) is quoted.
    """
    text = io.StringIO()
    try:
        _writer().dump(value, text)
    except BaseException:
        _writer.cache_clear()  # after an interruption, this writer would write nothing
        raise
    comments = "".join(f"# {line}".rstrip() + "\n" for line in header.splitlines())
    return comments + text.getvalue()


class _Representer(SafeRepresenter):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


def _list(representer: SafeRepresenter, values: list[object]) -> SequenceNode:
    in_one_line = bool(values) and all(isinstance(value, str) for value in values)
    return representer.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=in_one_line)


def _text(representer: SafeRepresenter, text: str) -> ScalarNode:
    plain = bool(_PLAIN.fullmatch(text)) and text.lower() not in _WORDS
    # In single quotes, text such as JSON needs no backslashes.
    bare = '"' in text and "'" not in text and text.isprintable()
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else "'" if bare else '"')


@cache
def _writer() -> YAML:
    """Create the writer. It is cached, since ruamel searches its folder for plug-ins whenever it creates a writer."""
    _Representer.add_representer(str, _text)
    _Representer.add_representer(list, _list)
    yaml = YAML(typ="rt", pure=True)
    yaml.Representer = _Representer
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.default_flow_style = False
    yaml.width = 1_000_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml
