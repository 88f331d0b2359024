"""Tensors of torch and arrays of NumPy over the same memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from ansor.errors import UnsupportedError
from ansor.frontend.graph import Array
from ansor.ir.dtypes import DTYPES

if TYPE_CHECKING:
    from torch import Tensor


def dtype_name(dtype: object) -> str:
    """The name of a type of torch, which is ours as well.

    >>> dtype_name("torch.float32")
    'float32'
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UnsupportedError(
            f"dtype {dtype}", "is not supported", f"dtypes are {', '.join(DTYPES)}"
        )
    return name


def to_array(tensor: Tensor) -> Array:
    """The elements of a CPU tensor that is contiguous, without a copy."""
    import torch

    plain = tensor.detach() if tensor.requires_grad else tensor
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    found: Array = plain.numpy()
    return found


def to_tensor(array: Array) -> Tensor:
    """A tensor over the memory of an array."""
    import torch

    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def memory_order(tensor: Tensor) -> tuple[int, ...] | None:
    """The axes from the slowest to the fastest in memory; None where elements lie
    apart or are shared, so that no order of axes makes the tensor contiguous.

    A plain tensor has (0, 1, …), one in channels-last format (0, 2, 3, 1).
    """
    sizes, strides = tensor.shape, tensor.stride()
    own = range(len(sizes))
    if tensor.is_contiguous():
        return tuple(own)
    order = sorted(own, key=lambda n: (-strides[n], n))
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return tuple(order)


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes one.

    >>> inverse((0, 2, 3, 1))
    (0, 3, 1, 2)
    """
    return tuple(list(order).index(n) for n in range(len(order)))
