"""The messages of the handshake: one line of JSON each, and the proof that a side knows the secret.

A proof is a response to a challenge: HMAC-SHA256 (RFC 2104) over the nonces of both sides and all that was said.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from trainkit import files

SECRET, SECRET_FILE = "KIT_HANDSHAKE_SECRET", "KIT_HANDSHAKE_SECRET_FILE"
LONGEST_BYTES = 4_096
"""Of a message, and of a secret."""
SHORTEST_SECRET = 16
_NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


def read_secret(environment: MutableMapping[str, str]) -> bytes:
    """Take the secret out of the environment, so that no process that is started later gets it; empty if there is none.

    RequestError for one that cannot be read or is too short.
    """
    secret, path = environment.pop(SECRET, "").encode("utf-8", "surrogateescape"), environment.get(SECRET_FILE)
    if not secret and not path:
        return b""
    where = SECRET
    if not secret and path:
        where = f"{SECRET_FILE}={path}"
        try:
            secret = files.read_file(Path(path), LONGEST_BYTES).strip()
        except OSError as error:
            raise RequestError(f"{where}: cannot be read: {error.strerror}") from None
    if len(secret) < SHORTEST_SECRET:
        raise RequestError(
            f"{where}: a secret needs at least {SHORTEST_SECRET} characters; make one with: openssl rand -hex 16"
        )
    return secret


def new_nonce() -> str:
    """Make a challenge that was never sent before."""
    return secrets.token_hex(16)


def prove(secret: bytes, *parts: object) -> str:
    """Return the proof over everything that was said; without a secret it shows only that both said the same."""
    return hmac.new(secret, json.dumps(parts).encode(), hashlib.sha256).hexdigest()


def nonce_of(message: dict[str, Any]) -> str:
    """Return the challenge in a message; ValueError for one that is none."""
    nonce = str(message["nonce"])
    if not _NONCE.fullmatch(nonce):
        raise ValueError("an answer that makes no sense")
    return nonce


def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """Send a message."""
    writer.write(json.dumps(message).encode() + b"\n")


async def receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Receive a message; ValueError for one that is too long or makes no sense."""
    message = json.loads(await reader.readline())
    if not isinstance(message, dict):
        msg = "an answer that makes no sense"
        raise ValueError(msg)  # noqa: TRY004 - the value is wrong, not its use
    return message
