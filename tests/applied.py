"""One operator of the vocabulary, applied: by its NumPy reference and by a kernel."""

import numpy as np

from ansor.frontend.graph import Value
from ansor.frontend.operators import operator
from ansor.search.build import build
from ansor.te.task import Task
from ansor.te.tensor import placeholder


def applied(name, *arrays, **attributes):
    """What the reference gives; its types are those that were inferred."""
    found = operator(name)
    inputs = [Value(f"x{n}", str(x.dtype), x.shape) for n, x in enumerate(arrays)]
    types = found.types(inputs, attributes)
    results = found.values(arrays, attributes)
    assert [(str(x.dtype), x.shape) for x in results] == types
    return results


def compiled(name, *arrays, **attributes):
    """What an untuned kernel gives."""
    tensors = [
        placeholder(x.shape, str(x.dtype), f"x{n}") for n, x in enumerate(arrays)
    ]
    outputs = operator(name).tensors(tensors, attributes)
    kernel = build(Task([*tensors, *outputs]))
    results = kernel(*(np.asarray(x, order="C") for x in arrays))
    return results if isinstance(results, tuple) else (results,)


def check(name, *arrays, expected, compiles=True, rtol=1e-5, atol=1e-6, **attributes):
    """Reference and kernel agree with `expected`, one array or several."""
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for run in (applied, compiled) if compiles else (applied,):
        results = run(name, *arrays, **attributes)
        for result, want in zip(results, wanted, strict=True):
            same(result, np.asarray(want), rtol, atol)


def same(result, want, rtol, atol):
    assert result.shape == want.shape
    assert result.dtype == want.dtype
    if result.dtype.kind in "iub":
        np.testing.assert_array_equal(result, want)
    else:
        wide = (x.astype(np.float64) for x in (result, want))
        np.testing.assert_allclose(*wide, rtol=rtol, atol=atol)
