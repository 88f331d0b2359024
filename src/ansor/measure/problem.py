"""One computation to be measured: its inputs, and the results that are right.

All of it lies in one file in memory, which many processes map without copying it. For
each input the file holds whole pages with the array at their end, and others with it
at their start (one copy where its length is whole pages). For each output it holds two
arrays: the least and the greatest value that is right. NaN in both means that NaN is
right, infinities of opposite signs that nothing is known about the element.
"""

from __future__ import annotations

import errno
import fcntl
import os
from functools import cached_property
from typing import TypeAlias, TypedDict, cast

import numpy as np
import numpy.typing as npt

from ansor.ir.dtypes import DTYPES, dtype, is_float
from ansor.ir.expr import Buffer
from ansor.measure.memory import HUGE, PAGE, Guarded, slack, whole_pages
from ansor.te.dag import DAG
from ansor.te.inputs import random_trial

Array: TypeAlias = npt.NDArray[np.generic]
Integers: TypeAlias = npt.NDArray[np.integer]

_LARGE = 1 << 22  # bytes from which NumPy asks for large pages
_SHIFT = 16  # bytes after the start of a cache line, where NumPy's arrays begin
_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}  # by bytes


class InputLayout(TypedDict):
    name: str
    dtype: str
    shape: list[int]
    start: int  # where the pages are that have the array at their start
    end: int


class OutputLayout(TypedDict):
    name: str
    dtype: str
    shape: list[int]
    low: int
    high: int  # the same as `low` where results are exact
    unknown: int  # elements about which nothing is known


class Layout(TypedDict):
    """Where everything is in the file; can be written as JSON."""

    seed: int
    bytes: int
    inputs: list[InputLayout]
    outputs: list[OutputLayout]


class Problem:
    """Inputs and right results of one DAG; made by `create` or `open`."""

    def __init__(self, fd: int, layout: Layout, dag: DAG) -> None:
        self.fd = fd
        self.layout = layout
        self.dag = dag
        self._mapped: dict[str, tuple[Guarded, ...]] = {}

    @classmethod
    def create(cls, dag: DAG, seed: int, fd: int | None = None) -> Problem:
        """Draw inputs and compute the results; into the file `fd`, or a new one.

        The file cannot be changed afterwards, if it allows to be sealed.
        """
        inputs, values, allowed = random_trial(dag, np.random.default_rng(seed))
        if fd is None:
            flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
            fd = os.memfd_create("ansor-problem", flags)
        writer = _Writer(fd, seed)
        for buffer, array in zip(dag.inputs, inputs, strict=True):
            writer.input(buffer, array)
        for buffer, value, most in zip(dag.outputs, values, allowed, strict=True):
            writer.output(buffer, value, most)
        return cls(fd, writer.finish(), dag)

    @classmethod
    def open(cls, fd: int, layout: Layout, dag: DAG) -> Problem:
        """A problem that another process created. `fd` belongs to it from now on."""
        return cls(fd, layout, dag)

    @property
    def seed(self) -> int:
        return self.layout["seed"]

    def input_addresses(self, at: str = "end") -> list[int]:
        """Where the inputs are, for checking: read-only, between guards."""
        return [region.address for region in self._inputs(at)]

    def timing_arguments(self) -> list[int]:
        """Where the inputs are, for timing: read-only copies, as arrays of users are.

        NumPy's begin where a cache line does not, so that wide vectors straddle two,
        and large ones are in large pages.
        """
        if "timing" not in self._mapped:
            self._mapped["timing"] = tuple(map(_as_arrays_are, self._inputs("start")))
        return [region.address + _SHIFT for region in self._mapped["timing"]]

    def output_regions(self, at: str = "end") -> tuple[Guarded, ...]:
        """Memory for the outputs between guards; the same at each call."""
        key = f"outputs at {at}"
        if key not in self._mapped:
            regions = [Guarded(buffer.bytes, at) for buffer in self.dag.outputs]
            self._mapped[key] = tuple(regions)
        return self._mapped[key]

    @cached_property
    def right(self) -> tuple[tuple[Array, Array], ...]:
        """For each output the least and the greatest right values, `ordered`, flat."""
        result = []
        for row, buffer in zip(self.layout["outputs"], self.dag.outputs, strict=True):
            low = self._array(row["low"], buffer)
            exact = row["low"] == row["high"]
            result.append((low, low if exact else self._array(row["high"], buffer)))
        return tuple(result)

    def close(self) -> None:
        """Give the memory back, and with it all arrays and addresses."""
        for regions in self._mapped.values():
            for region in regions:
                region.close()
        self._mapped.clear()
        self.__dict__.pop("right", None)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _inputs(self, at: str) -> tuple[Guarded, ...]:
        key = f"inputs at {at}"
        if key not in self._mapped:
            both = zip(self.layout["inputs"], self.dag.inputs, strict=True)
            self._mapped[key] = tuple(
                Guarded(buffer.bytes, at, fd=self.fd, offset=_place(row, at))
                for row, buffer in both
            )
        return self._mapped[key]

    def _array(self, offset: int, buffer: Buffer) -> Array:
        region = Guarded(buffer.bytes, "start", fd=self.fd, offset=offset)
        self._mapped[f"right {offset}"] = (region,)
        return region.array(None, ordered_type(buffer.dtype))


def _place(row: InputLayout, at: str) -> int:
    return row["end"] if at == "end" else row["start"]


def _as_arrays_are(source: Guarded) -> Guarded:
    """A copy, after a few bytes."""
    is_large = source.nbytes >= _LARGE
    copy = Guarded(source.nbytes + _SHIFT, "start", alignment=HUGE if is_large else 1)
    if is_large:
        copy.advise_huge()
    copy.array()[_SHIFT:] = source.array()
    copy.seal()
    return copy


class _Writer:
    """Writes arrays into pages of a file, one after the other."""

    def __init__(self, fd: int, seed: int) -> None:
        self.fd = fd
        self.layout = Layout(seed=seed, bytes=0, inputs=[], outputs=[])

    def input(self, buffer: Buffer, array: Array) -> None:
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        start = self.pages(data, "start")
        end = self.pages(data, "end") if data.nbytes % PAGE else start
        row = InputLayout(**_signature(buffer), start=start, end=end)
        self.layout["inputs"].append(row)

    def output(self, buffer: Buffer, value: Array, allowed: Array) -> None:
        low, high, unknown = interval(value, allowed, buffer.dtype)
        at = self.pages(low.view(np.uint8), "start")
        other = at
        if low.tobytes() != high.tobytes():
            other = self.pages(high.view(np.uint8), "start")
        row = OutputLayout(**_signature(buffer), low=at, high=other, unknown=unknown)
        self.layout["outputs"].append(row)

    def pages(self, data: npt.NDArray[np.uint8], at: str) -> int:
        """Append `data`, filled up with slack; returns where its pages begin."""
        begin = self.layout["bytes"]
        room = whole_pages(data.nbytes)
        fill = room - data.nbytes
        ahead = fill if at == "end" else 0
        _write(self.fd, slack(0, ahead), begin)
        _write(self.fd, data, begin + ahead)
        behind = slack(data.nbytes % 2, fill - ahead)
        _write(self.fd, behind, begin + ahead + data.nbytes)
        self.layout["bytes"] += room
        return begin

    def finish(self) -> Layout:
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
        try:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        except OSError as error:  # a file that was not made for it
            if error.errno not in (errno.EPERM, errno.EINVAL, errno.EBUSY):
                raise
        return self.layout


class _Signature(TypedDict):
    name: str
    dtype: str
    shape: list[int]


def _signature(buffer: Buffer) -> _Signature:
    return {"name": buffer.name, "dtype": buffer.dtype, "shape": list(buffer.shape)}


def _write(fd: int, data: npt.NDArray[np.uint8], offset: int) -> None:
    rest = memoryview(data.data)
    while rest.nbytes:
        done = os.pwrite(fd, rest, offset)
        rest, offset = rest[done:], offset + done


# -- right values ----------------------------------------------------------------------


def ordered_type(name: str) -> np.dtype[np.generic]:
    """The type in which elements of type `name` are compared."""
    row = dtype(name)
    if row.kind == "float" and row.bits == 16:  # NumPy compares these slowly
        return np.dtype(np.int16)
    return np.dtype(np.uint8) if row.kind == "bool" else row.numpy


def ordered(array: Array, name: str) -> Array:
    """Elements of type `name`, flat, as `ordered_type`, in the same order."""
    flat = array.reshape(-1)
    target = ordered_type(name)
    if is_float(name) and target.kind == "i":
        return _keys(flat)
    return flat.view(target)


def readable(values: Array, name: str) -> npt.NDArray[np.float64]:
    """What `ordered` values of type `name` stand for."""
    if is_float(name) and values.dtype.kind == "i":
        values = _from_keys(values, DTYPES[name].numpy)
    return values.astype(np.float64)


def interval(value: Array, allowed: Array, name: str) -> tuple[Array, Array, int]:
    """The least and the greatest right element, `ordered`, and how many are unknown.

    x lies between them exactly where |x - value| <= allowed.
    """
    flat = np.asarray(value).reshape(-1)
    most = np.broadcast_to(np.asarray(allowed, np.float64), np.shape(value)).reshape(-1)
    if is_float(name):
        return _float_interval(flat, most, name)
    whole = flat.view(ordered_type(name))
    assert np.issubdtype(whole.dtype, np.integer)
    return _integer_interval(cast(Integers, whole), most, name)


def _float_interval(
    value: Array, allowed: npt.NDArray[np.float64], name: str
) -> tuple[Array, Array, int]:
    y = value.astype(np.float64)
    unknown = ~np.isfinite(allowed)
    with np.errstate(all="ignore"):
        low, high = y - allowed, y + allowed
    finite, top = np.isfinite(y), np.finfo(np.float64).max
    for limit in (low, high):
        np.clip(limit, -top, top, out=limit, where=finite)
    low[unknown], high[unknown] = -np.inf, np.inf
    row = DTYPES[name].numpy
    least, greatest = _inside(low, row, 1), _inside(high, row, -1)
    if ordered_type(name).kind == "i":  # both zeros are right where one is
        least[least == 0], greatest[greatest == -1] = -1, 0
        return least, greatest, int(unknown.sum())
    return _from_keys(least, row), _from_keys(greatest, row), int(unknown.sum())


def _inside(
    limit: npt.NDArray[np.float64], row: np.dtype[np.generic], step: int
) -> npt.NDArray[np.signedinteger]:
    """Keys of the elements next to `limit`, above (1) or below (-1) it."""
    with np.errstate(all="ignore"):
        near = limit.astype(row)
        outside = (near.astype(np.float64) - limit) * step < 0
    keys = _keys(near)
    return keys + np.where(outside, keys.dtype.type(step), keys.dtype.type(0))


def _keys(values: Array) -> npt.NDArray[np.signedinteger]:
    """Integers in the order of the floats; NaN lies beyond the infinities."""
    bits: npt.NDArray[np.signedinteger] = values.view(_SIGNED[values.itemsize])
    size = bits.dtype.type(np.iinfo(bits.dtype).max)  # all bits but the sign
    keys: npt.NDArray[np.signedinteger] = bits ^ ((bits >> size.nbytes * 8 - 1) & size)
    return keys


def _from_keys(keys: Array, row: np.dtype[np.generic]) -> Array:
    return _keys(keys).view(row)


def _integer_interval(
    value: Integers, allowed: npt.NDArray[np.float64], name: str
) -> tuple[Array, Array, int]:
    info = np.iinfo(value.dtype)
    least, most = (0, 1) if name == "bool" else (int(info.min), int(info.max))
    low, high = value.copy(), value.copy()
    loose = np.flatnonzero(allowed >= 1)
    middle = value[loose].astype(np.int64)
    gap = np.minimum(np.floor(allowed[loose]), 2.0**62).astype(np.int64)
    edge = 4096.0 if info.bits == 64 else 0.0  # within the rounding of float64
    near = middle.astype(np.float64)
    anything = gap >= 1 << 62
    below = anything | (near - gap <= least + edge)
    above = anything | (near + gap >= most - edge)
    low[loose] = np.where(below, least, middle - gap)
    high[loose] = np.where(above, most, middle + gap)
    return low, high, int((allowed >= float(most) - least).sum())
