"""Frames between processes: a JSON header and a block of bytes, both bounded."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import TypeAlias

Header: TypeAlias = dict[str, object]

HEADER_BYTES = 64 << 20
PAYLOAD_BYTES = 64 << 20
_LENGTHS = struct.Struct("<4sII")
_MAGIC = b"ansr"


class WireError(Exception):
    """The bytes that came are no frame. Whoever sent them is not to be trusted."""


def pack(header: Header, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    text = json.dumps(header, allow_nan=False).encode()
    if len(text) > HEADER_BYTES or len(payload) > PAYLOAD_BYTES:
        raise WireError(f"a frame of {len(text)} + {len(payload)} bytes is too large")
    return _LENGTHS.pack(_MAGIC, len(text), len(payload)) + text + payload


def receive(connection: socket.socket) -> tuple[Header, bytes] | None:
    """The next frame, waiting for it; None at the end of the stream."""
    reader = Reader()
    wanted = _LENGTHS.size
    while data := connection.recv(wanted):
        for frame in reader.feed(data):
            return frame
        wanted = reader.missing
    return None


class Reader:
    """Puts frames together from pieces as they arrive."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def missing(self) -> int:
        """How many bytes the next step needs, at least 1."""
        head = _LENGTHS.size
        if len(self._data) < head:
            return head - len(self._data)
        return max(1, head + sum(self._lengths()) - len(self._data))

    def feed(self, data: bytes) -> Iterator[tuple[Header, bytes]]:
        """The frames that are complete with these bytes."""
        self._data += data
        while len(self._data) >= _LENGTHS.size:
            text, payload = self._lengths()
            start = _LENGTHS.size
            end = start + text + payload
            if len(self._data) < end:
                return
            header = bytes(self._data[start : start + text])
            block = bytes(self._data[start + text : end])
            del self._data[:end]
            yield _header(header), block

    def _lengths(self) -> tuple[int, int]:
        magic, text, payload = _LENGTHS.unpack_from(self._data)
        if magic != _MAGIC or text > HEADER_BYTES or payload > PAYLOAD_BYTES:
            raise WireError("not a frame")
        return text, payload


def _header(text: bytes) -> Header:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"header of a frame: {error}") from None
    if not isinstance(header, dict):
        raise WireError("header of a frame: not a dictionary")
    return header
