"""Tensors of ONNX files as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import ml_dtypes
import numpy as np

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.graph import Array
from ansor.frontend.onnx.dtypes import CODES, code_name
from ansor.frontend.onnx.external import read_external, read_span
from ansor.frontend.onnx.messages import SparseData, TensorData
from ansor.frontend.onnx.wire import Source, Span, decode_varints
from ansor.frontend.pages import LARGE, Bytes, mapped_file
from ansor.ir.dtypes import DTYPES
from ansor.reading import brief

MOST_AXES = 32
LARGEST = 1 << 34  # bytes of one tensor
LARGEST_SPARSE = 1 << 24  # bytes of one that is written sparsely, when it is dense


def array(tensor: TensorData) -> Array:
    """The elements of a tensor.

    Large data stays where it is, which may be a mapped file, aligned or not; the
    result must not be changed.
    """
    what = f"tensor {brief(tensor.name)}"
    if tensor.code not in CODES:
        raise UnsupportedError(what, f"its elements are {code_name(tensor.code)}")
    if tensor.segment is not None:
        raise UnsupportedError(what, "it is one segment of a tensor")
    shape = dimensions(tensor.source, tensor.dimensions, what)
    dtype = DTYPES[CODES[tensor.code]].numpy
    size = prod(shape) * dtype.itemsize
    if size > LARGEST:
        raise ModelError(what, f"{list(shape)} has {size:,} bytes, more than {LARGEST}")
    if tensor.location == 1:
        flat = read_external(tensor, size, what).view(dtype)
    elif tensor.location != 0:
        raise ModelError(what, f"its data location {tensor.location} is unknown")
    else:
        flat = _inside(tensor, dtype, prod(shape), what)
    return _valid(flat, tensor.code).reshape(shape)


def dense(sparse: SparseData) -> Array:
    """A sparse tensor, written out."""
    if sparse.values is None or sparse.indices is None:
        raise ModelError("a sparse tensor", "it has no values or no indices")
    what = f"sparse tensor {brief(sparse.values.name)}"
    shape = dimensions(sparse.source, sparse.dimensions, what)
    values, indices = array(sparse.values), array(sparse.indices)
    if prod(shape) * values.itemsize > LARGEST_SPARSE:
        raise ModelError(what, f"{list(shape)} is larger than {LARGEST_SPARSE:,} bytes")
    if indices.dtype != np.int64 or values.ndim != 1:
        raise ModelError(what, "its values or indices are of the wrong type")
    result = np.zeros(shape, values.dtype)
    if len(indices) != len(values):
        raise ModelError(what, f"{len(indices)} indices of {len(values)} values")
    try:
        where = (
            indices
            if indices.ndim == 1
            else np.ravel_multi_index(tuple(indices.T), shape)
        )
        if len(where) and int(where.min()) < 0:
            raise IndexError(f"index {where.min()}")
        result.reshape(-1)[where] = values
    except (ValueError, IndexError) as error:
        raise ModelError(what, f"its indices do not fit: {error}") from error
    return result


def dimensions(source: Source, spans: Sequence[Span], what: str) -> tuple[int, ...]:
    found = tuple(int(x) for x in integers(source, spans, what))
    if len(found) > MOST_AXES:
        raise ModelError(what, f"{len(found)} axes, more than {MOST_AXES}")
    for length in found:
        if length < 0:
            raise ModelError(what, f"a dimension of {length}")
    return found


def integers(source: Source, spans: Sequence[Span], what: str) -> Array:
    """The numbers of a packed field of integers, as int64."""
    found = decode_varints(_joined(source, spans))
    if found is None:
        raise ModelError(what, "a number does not end")
    return found.view(np.int64)


def floats(source: Source, spans: Sequence[Span], what: str) -> Array:
    """The numbers of a packed field of floats."""
    joined = _joined(source, spans)
    if len(joined) % 4:
        raise ModelError(what, f"{len(joined)} bytes of 4-byte numbers")
    return joined.view("<f4")


def _joined(source: Source, spans: Sequence[Span]) -> Bytes:
    if len(spans) == 1:
        start, stop = spans[0]
        return np.frombuffer(source.view, np.uint8, stop - start, start)
    return np.frombuffer(b"".join(source.view[a:b] for a, b in spans), np.uint8)


def _inside(
    tensor: TensorData, dtype: np.dtype[np.generic], count: int, what: str
) -> Array:
    """The elements of a tensor whose data is in the file itself."""
    if tensor.raw is not None:
        flat = _raw(tensor.source, tensor.raw, dtype, what)
    else:
        flat = _typed(tensor, dtype, what)
    if len(flat) != count:
        raise ModelError(what, f"{len(flat):,} elements, but its shape has {count:,}")
    stays = flat.nbytes >= LARGE or (flat.flags.aligned and mapped_file(flat) is None)
    return flat if stays else flat.copy()


def _raw(source: Source, span: Span, dtype: np.dtype[np.generic], what: str) -> Array:
    start, stop = span
    if (stop - start) % dtype.itemsize:
        raise ModelError(what, f"{stop - start} bytes of {dtype} elements")
    if source.descriptor is not None and 0 < stop - start < LARGE:
        return read_span(source.descriptor, start, stop, what).view(dtype)
    found = np.frombuffer(source.view, np.uint8, stop - start, start)
    return found.view(dtype)


def _typed(tensor: TensorData, dtype: np.dtype[np.generic], what: str) -> Array:
    """Of data in the field of its type. Small types share the field of int32."""
    source = tensor.source
    if dtype == np.float32:
        return floats(source, tensor.floats, what)
    if dtype == np.float64:
        joined = _joined(source, tensor.doubles)
        if len(joined) % 8:
            raise ModelError(what, f"{len(joined)} bytes of 8-byte numbers")
        return joined.view("<f8")
    if dtype == np.int64:
        return integers(source, tensor.int64s, what)
    numbers = integers(source, tensor.int32s, what)
    if dtype in (np.float16, ml_dtypes.bfloat16):
        return numbers.astype(np.uint16).view(dtype)
    return numbers.astype(dtype)


def _valid(flat: Array, code: int) -> Array:
    """Booleans that are neither 0 nor 1 become 1: compiled code relies on it."""
    if CODES[code] != "bool" or not len(flat):
        return flat
    data = flat.view(np.uint8)
    return flat if int(data.max()) <= 1 else (data != 0)
