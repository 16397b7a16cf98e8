"""Convert plain values of a file to typed Structs, with errors that name the line."""

import re
import types
import typing
from typing import Any

import msgspec

from runner.core.errors import did_you_mean
from runner.core.text import shown
from runner.core.values import LARGEST_WHOLE
from runner.core.yaml_reader import Document


def decode(document: Document, kind: Any, value: Any, *place: str | int) -> Any:
    """Convert a value of a file to a type. Raises RequestError with the value's line.

    Inner values are converted first, so that an error has their line: msgspec's errors name neither an unknown key nor
    a value's place in a mapping.
    """
    within = _types_within(kind, value)
    if within is not None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in within:
                document.fail(f"unknown key '{key}'{did_you_mean(key, within)}", *place, key)
            decode(document, within[key], item, *place, key)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        document.fail(_explain(str(error), kind, value, place), *place)


def _types_within(kind: Any, value: Any) -> dict[Any, Any] | None:
    kind = _bare(kind)
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    for option in map(_bare, typing.get_args(kind) if is_union else (kind,)):
        origin = typing.get_origin(option)
        if isinstance(value, dict) and isinstance(option, type) and issubclass(option, msgspec.Struct):
            return {field.encode_name: field.type for field in msgspec.structs.fields(option)}
        if isinstance(value, dict) and origin is dict:
            return dict.fromkeys(value, typing.get_args(option)[1])
        if isinstance(value, list) and origin is list:
            return dict.fromkeys(range(len(value)), typing.get_args(option)[0])
    return None


def _bare(kind: Any) -> Any:
    return typing.get_args(kind)[0] if typing.get_origin(kind) is typing.Annotated else kind


def _explain(said: str, kind: Any, value: Any, place: tuple[str | int, ...]) -> str:
    if missing := re.match(r"Object missing required field `(\w+)`", said):
        return f"'{missing[1]}' is missing"
    key = next((step for step in reversed(place) if isinstance(step, str)), "the file")
    schema = msgspec.json.schema(kind)
    options = [schema, *schema.get("anyOf", ())]
    hint = ""
    if said.startswith("Invalid enum"):
        choices = next(option["enum"] for option in options if "enum" in option)
        meant, hint = " or ".join(choices), did_you_mean(value, choices).partition("; known")[0]
    elif "regex" in said or str(LARGEST_WHOLE)[:-1] in said:
        meant = next((option["title"] for option in options if "title" in option), "another text")
    else:
        meant = re.sub(r"^Expected |, got .*|`", "", said)
        for name, words in _WORDS.items():
            meant = re.sub(rf"\b{name}\b", words, meant)
    return f"'{key}' has to be {meant.replace(' | ', ', ')}, not {shown(value)}{hint}"


_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}
