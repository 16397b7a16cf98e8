"""Packages -> a software bill of materials: CycloneDX 1.5 as JSON (ECMA-424; the fields that its schema requires).

The same packages always give the same bytes: the serial number is made of them, and there is no time stamp.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import runner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.supply.packages import Package

SCHEMA = "http://cyclonedx.org/schema/bom-1.5.schema.json"
_NAMESPACE = uuid.UUID("6f0f6d0e-52a1-5c0c-9d5f-6d0d3f8a1c11")


def bill(packages: Iterable[Package], name: str, version: str, *, image: bool) -> str:
    """Write the bill of an image, or of the project's lock file.

    Args:
        packages: what it holds.
        name: of the image, or of the project.
        version: the id of the image, or the project's version.
        image: whether it is that of an image.
    """
    components = [_component(one) for one in _each_once(packages)]
    subject = {"type": "container" if image else "application", "bom-ref": "subject", "name": name, "version": version}
    text = json.dumps([subject, components], sort_keys=True)
    document = {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, text)}",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [
                    {"type": "application", "name": "distributed-experiment-kit", "version": runner.__version__}
                ]
            },
            "component": subject,
        },
        "components": components,
        "compositions": [{"aggregate": "incomplete", "assemblies": ["subject"]}],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _each_once(packages: Iterable[Package]) -> list[Package]:
    """Leave out a second one of the same identity: an image may hold a package in two places."""
    return list({one.purl: one for one in sorted(packages, key=lambda one: (one.purl, one.place))}.values())


def _component(package: Package) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": package.purl,
        "name": package.name,
        "version": package.version,
        "purl": package.purl,
    }
    if package.hashes:
        found["hashes"] = [{"alg": "SHA-256", "content": one} for one in package.hashes]
    if package.expression:
        found["licenses"] = [{"expression": package.licences[0]}]
    elif package.licences:
        found["licenses"] = [{"license": {"name": one}} for one in package.licences]
    told = {"found-in": package.place, "marker": package.marker}
    found["properties"] = [{"name": f"kit:{key}", "value": value} for key, value in told.items() if value]
    return found
