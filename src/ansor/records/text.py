"""Data as text: the canonical JSON that is hashed, bounded reading, plain messages."""

from __future__ import annotations

import json
from math import isfinite
from typing import Never

from ansor.errors import RecordError
from ansor.reading import Reader, brief

MAX_BYTES = 16 << 20  # of one JSON text
MAX_MESSAGE = 4_000  # characters

read = Reader(RecordError)


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not a number")


_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), allow_nan=False
)  # fmt: skip
_decoder = json.JSONDecoder(parse_constant=_refuse)


def canonical(data: object) -> str:
    """JSON with one text for equal data: sorted names, no spaces, ASCII only.

    >>> canonical({"b": 0.1, "a": [1, None]})
    '{"a":[1,null],"b":0.1}'
    """
    what = "data of a record"
    try:
        text = _encoder.encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(what, f"cannot be JSON: {error}") from None
    _check_size(what, text)
    return text


def parse(what: str, text: str | bytes) -> object:
    """JSON to data; bounded in size and depth, without NaN and infinities."""
    _check_size(what, text)
    try:
        shown = text if isinstance(text, str) else text.decode()
        value: object = _decoder.decode(shown)
    except RecursionError:
        raise RecordError(what, "not JSON that is read here: nests too deep") from None
    except ValueError as error:
        raise RecordError(what, f"not JSON: {plain(str(error), 200)}") from None
    return value


def plain(text: str, most: int = MAX_MESSAGE) -> str:
    """What can be stored and printed of a text: cut, odd characters replaced.

    >>> plain("exit\\x00 code", 7)
    'exit? …'
    """
    cut = text if len(text) <= most else f"{text[: most - 1]}…"
    if cut.isprintable():
        return cut
    return "".join(x if x.isprintable() or x in "\n\t" else "?" for x in cut)


def message(what: str, data: object) -> str:
    """A text of several lines."""
    if not isinstance(data, str) or plain(data) != data:
        raise RecordError(what, f"{brief(data)} is not a text that prints")
    return data


def number(what: str, data: object) -> float:
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise RecordError(what, f"{brief(data)} is not a number")
    try:
        value = float(data)
    except OverflowError:
        raise RecordError(what, f"{brief(data)} is too large") from None
    if not isfinite(value):
        raise RecordError(what, f"{value!r} is not finite")
    return value


def _check_size(what: str, text: str | bytes) -> None:
    if len(text) > MAX_BYTES:
        raise RecordError(what, f"{len(text)} bytes of JSON, more than {MAX_BYTES}")
