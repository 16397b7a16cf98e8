"""How a value of a definition is described, as JSON Schema, and how it is checked against that.

A node has keywords of JSON Schema, which editors know, and some of our own, for the messages of a check:

* `meant`: what the value has to be, for example `strong or weak`.
* `form`: what a text has to be that does not match the `pattern`.
* `says`: a message for each broken keyword, in place of the usual one; `any` stands for those that are not named.
* `check`: a function that refuses a value, in place of all keywords.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from runner.core.text import shown
from runner.core.yaml_reader import Document

Node = Mapping[str, Any]
LONGEST_NAME = 100
LONGEST_LINE = 1_000
MOST_SECONDS = 31_536_000
"""A year."""
NOT_BLANK = r"\S"
_OWN = {"meant", "form", "says", "check"}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_SAYS = {
    "required": "'{key}' is missing",
    "enum": "{key} has to be {meant}, not {shown}",
    "pattern": "{key} '{value}' has to be {form}",
    "maxLength": "'{key}' has {count:,} characters; {maxLength:,} are the most",
    "maxItems": "'{key}' has {count:,} entries; {maxItems:,} are the most",
    **dict.fromkeys(("type", "minimum", "maximum"), "'{key}' has to be {meant}, not {shown}"),
}


def text(about: str, pattern: str = "", form: str = "", most: int = LONGEST_NAME, **more: Any) -> Node:
    """Describe a text; without a pattern it may be any that is not blank."""
    pattern = f"^(?:{pattern})$" if pattern else NOT_BLANK
    node = {"description": about, "type": "string", "pattern": pattern, "maxLength": most}
    return {**node, "meant": "text", "form": form, **more}


def choice(about: str, choices: tuple[str, ...], **more: Any) -> Node:
    """Describe one of a few words."""
    return {"description": about, "enum": list(choices), "meant": " or ".join(choices), **more}


def seconds(about: str, **more: Any) -> Node:
    """Describe a time above zero."""
    meant = f"a number of seconds above 0, {MOST_SECONDS:,} at most"
    node = {"description": about, "type": "number", "exclusiveMinimum": 0, "maximum": MOST_SECONDS}
    return {**node, "meant": meant, **more}


def check(document: Document, node: Node, value: Any, *place: str | int) -> None:
    """Refuse the first value that breaks a keyword of its node, at its line."""
    key = next((step for step in reversed(place) if isinstance(step, str)), "")
    if "check" in node:
        node["check"](document, key, value, *place)
    elif broken := _broken(node, value):
        document.fail(_message(node, broken, key, value), *place)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check(document, node["items"], item, *place, index)
    elif isinstance(value, dict):
        _check_mapping(document, node, value, *place)


def _check_mapping(document: Document, node: Node, values: dict[str, Any], *place: str | int) -> None:
    properties, others = node.get("properties", {}), node["additionalProperties"]
    if others is False:
        document.only_keys(properties, *place)
    for key in node.get("required", ()):
        if values.get(key) is None:
            document.fail(_message(properties[key], "required", key, None), *place, key)
    for key, value in values.items():
        check(document, properties.get(key, others), value, *place, key)


def _broken(node: Node, value: Any) -> str | None:
    """Return the first keyword that a value breaks, not looking at what is in it."""
    if "enum" in node:
        return None if value in node["enum"] else "enum"
    types = {node["type"]} if isinstance(node["type"], str) else {*node["type"]}
    # True and false are no numbers.
    types = types & {"boolean"} if isinstance(value, bool) else types
    is_blank = "pattern" in node and isinstance(value, str) and not value.strip()
    if is_blank or not any(isinstance(value, _TYPES[name]) for name in types):
        return "type"
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_above = value > node["exclusiveMinimum"] if "exclusiveMinimum" in node else value >= node["minimum"]
        if not is_above:  # NaN is above nothing
            return "minimum"
        return "maximum" if value > node["maximum"] else None
    return _broken_size(node, value) if isinstance(value, str | list | dict) else None


def _broken_size(node: Node, value: str | list[Any] | dict[str, Any]) -> str | None:
    most = {str: "maxLength", list: "maxItems", dict: "maxProperties"}[type(value)]
    if len(value) > node.get(most, math.inf):
        return most
    if isinstance(value, str):
        pattern = node.get("pattern", NOT_BLANK)
        return None if pattern == NOT_BLANK or re.fullmatch(pattern, value) else "pattern"
    return "minItems" if isinstance(value, list) and len(value) < node.get("minItems", 0) else None


def _message(node: Node, keyword: str, key: str, value: Any) -> str:
    says = node.get("says", {})
    template: str = says.get(keyword) or says.get("any") or _SAYS[keyword]
    known = {"meant": "a mapping of names to values", **node, "key": key, "value": value, "shown": shown(value)}
    return template.format(**known, count=len(value) if isinstance(value, str | list | dict) else 0)


def plain(node: Any) -> Any:
    """Return a node as JSON Schema has it, without the keywords of our own."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.items() if key not in _OWN}
    return [plain(item) for item in node] if isinstance(node, list) else node
