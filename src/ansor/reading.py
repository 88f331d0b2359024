"""Reading plain data (what JSON can hold) that nobody has checked yet.

Every check either returns the value in its type or raises the reader's error, with a
message that names the place (`what`), the value and the limit.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from ansor.errors import AnsorError

MAX_TEXT = 512  # characters

Data: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True)
class Reader:
    """Checks whose failures are raised as one kind of error.

    >>> from ansor.errors import TargetError
    >>> Reader(TargetError).integer("cores", 0, 1, 64)
    Traceback (most recent call last):
    ansor.errors.TargetError: cores: 0 is out of range
      hint: use 1 to 64
    """

    error: type[AnsorError]

    def dictionary(self, what: str, data: object) -> Data:
        if not isinstance(data, dict):
            raise self.error(what, f"{brief(data)} is not a dictionary")
        return data

    def names(self, what: str, data: Data, names: Collection[str]) -> None:
        """Every name is there, and no other."""
        hint = f"its fields are {', '.join(names)}"
        for name in names:
            if name not in data:
                raise self.error(what, f"field {name!r} is missing", hint)
        for name in data:
            if name not in names:
                raise self.error(what, f"field {brief(name)} is unknown", hint)

    def fields(self, what: str, data: object, names: Collection[str]) -> Data:
        """A dictionary with these names and no other."""
        found = self.dictionary(what, data)
        self.names(what, found, names)
        return found

    def versioned(
        self, what: str, data: object, version: int, names: Collection[str]
    ) -> Data:
        """A dictionary with these names, "version" among them, of this version."""
        found = self.dictionary(what, data)
        written = found.get("version", version)
        if type(written) is not int or written != version:
            raise self.error(
                what,
                f"version {brief(written)} is unknown",
                f"this release reads version {version}",
            )
        self.names(what, found, names)
        return found

    def list(self, what: str, data: object, most: int) -> builtins.list[object]:
        if not isinstance(data, list):
            raise self.error(what, f"{brief(data)} is not a list")
        if len(data) > most:
            raise self.error(what, f"{len(data)} entries, more than {most}")
        return data

    def text(self, what: str, data: object, most: int = MAX_TEXT) -> str:
        if not isinstance(data, str):
            raise self.error(what, f"{brief(data)} is not a text")
        if len(data) > most:
            raise self.error(
                what, f"a text of {len(data)} characters, more than {most}"
            )
        if not data.isprintable():
            raise self.error(what, f"{brief(data)} has characters that do not print")
        return data

    def integer(self, what: str, data: object, low: int, high: int) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            raise self.error(what, f"{brief(data)} is not an integer")
        if not low <= data <= high:
            raise self.error(
                what, f"{brief(data)} is out of range", f"use {low} to {high}"
            )
        return data

    def flag(self, what: str, data: object) -> bool:
        if not isinstance(data, bool):
            raise self.error(what, f"{brief(data)} is neither true nor false")
        return data


def brief(value: object) -> str:
    """A value in a message: short, whatever it is and however deep it nests.

    >>> brief([[1], [2]])
    'a list of 2'
    """
    match value:
        case None | bool() | float():
            return repr(value)
        case int():
            is_short = value.bit_length() <= 64
            return repr(value) if is_short else f"a {value.bit_length()}-bit integer"
        case str():
            return repr(value if len(value) <= 40 else f"{value[:40]}…")
        case list() | tuple():
            return f"a list of {len(value)}"
        case _:
            return f"a value of type {type(value).__name__}"
