"""Random small DAGs: one to four stages over a few inputs, all results finite."""

from dataclasses import dataclass, field
from math import prod
from random import Random

import numpy as np

import ansor
from ansor.ir.dtypes import DTYPES, is_float
from ansor.te.reduction import ReduceAxis, Reduction
from ansor.te.tensor import Tensor
from ansor.te.value import Value
from strategies_values import (
    FLOATS,
    INTS,
    Formula,
    binary,
    limits,
    tame,
    to_number,
    unary,
)

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 16, 17, 31)
POINTS = 3000  # iterations of one stage
DTYPE_NAMES = tuple(DTYPES)
LARGEST_TERM = 60.0
LARGEST_PRODUCT = 1200.0


@dataclass(frozen=True)
class Axis:
    """One axis of a stage while its formula is made."""

    value: Value
    extent: int


@dataclass(frozen=True)
class Index:
    """An index, its greatest value, and the condition under which it may be used."""

    value: Value | int
    high: int  # only for indices into a new input
    guard: Value | None = None


@dataclass(frozen=True)
class Known:
    """A tensor and bounds of its elements."""

    tensor: Tensor
    low: float
    high: float


@dataclass
class Maker:
    """Makes the tensors of one DAG."""

    r: Random
    inputs: list[Known] = field(default_factory=list)
    stages: list[Known] = field(default_factory=list)

    def outputs(self) -> list[Tensor]:
        for _ in range(self.r.choice((1, 1, 2, 2, 3, 4))):
            self.stage()
        last = [self.stages[-1].tensor]
        others = [s.tensor for s in self.stages[:-1] if self.r.random() < 0.2]
        return last + others if self.r.random() < 0.5 else others + last

    # -- stages ------------------------------------------------------------------

    def stage(self) -> None:
        reduces = self.r.random() < 0.55
        name = f"s{len(self.stages)}"
        shape = self.shape(POINTS if not reduces else POINTS // 4)
        names = ["i", "j", "l", "m"][: len(shape)]
        formulas: list[Formula] = []

        def body(*axes: Value) -> Value:
            spatial = [Axis(v, e) for v, e in zip(axes, shape, strict=True)]
            formulas.append(self.reduction(spatial) if reduces else self.plain(spatial))
            return formulas[0].value

        tensor = ansor.compute(shape, body, name=name, axes=names)
        self.stages.append(Known(tensor, formulas[0].low, formulas[0].high))

    def shape(self, most: int) -> tuple[int, ...]:
        shape: tuple[int, ...] = ()
        for _ in range(self.r.choice((0, 1, 1, 2, 2, 2, 3, 3))):
            extent = self.r.choice(EXTENTS)
            if prod(shape) * extent <= most:
                shape = (*shape, extent)
        return shape

    def plain(self, axes: list[Axis]) -> Formula:
        formula = self.formula(axes, depth=2)
        for _ in range(self.r.randrange(3)):
            formula = unary(self.r, formula)
        return tame(formula)

    def reduction(self, spatial: list[Axis]) -> Formula:
        count = prod(axis.extent for axis in spatial)
        reduce: list[ReduceAxis] = []
        for name in ("k", "q")[: self.r.choice((1, 1, 2))]:
            extent = self.r.choice(EXTENTS)
            if count * extent <= POINTS or not reduce:
                reduce.append(ansor.reduce_axis(extent, name=name))
                count *= extent
        axes = [*spatial, *(Axis(k, k.extent) for k in reduce)]
        many = prod(k.extent for k in reduce)
        if self.r.random() < 0.4:
            a, b = self.element(axes), self.element(axes)
            body = tame(binary(self.r, a, b), LARGEST_TERM)
        else:
            body = self.formula(axes, depth=1)
        return self.reduced(body, reduce, many)

    def reduced(self, x: Formula, axes: list[ReduceAxis], many: int) -> Formula:
        kinds = ("sum", "sum", "sum", "prod", "max", "min", "argmax", "argmin")
        kind = self.r.choice((*kinds, "any", "all"))
        if kind in ("any", "all"):
            function = getattr(ansor, kind)
            return Formula(function(x.value, axis=axes), 0, 1)
        x = to_number(self.r, x)
        if is_float(x.dtype):
            x = _before(kind, x, many)
        value: Reduction = getattr(ansor, kind)(x.value, axis=axes)
        if kind in ("argmax", "argmin"):
            return Formula(value, 0, many - 1)
        if kind in ("max", "min"):
            return Formula(value, x.low, x.high)
        if not is_float(x.dtype):
            return Formula(value, *limits(x.dtype))
        size = many * x.size if kind == "sum" else LARGEST_PRODUCT
        return Formula(value, -size, size)

    # -- formulas ----------------------------------------------------------------

    def formula(self, axes: list[Axis], depth: int) -> Formula:
        if depth == 0 or self.r.random() < 0.2:
            return self.element(axes)
        if self.r.random() < 0.4:
            return unary(self.r, self.formula(axes, depth - 1))
        a, b = self.formula(axes, depth - 1), self.formula(axes, depth - 1)
        return binary(self.r, a, b)

    def element(self, axes: list[Axis]) -> Formula:
        """An element of some tensor, at an index made of the axes."""
        draw = self.r.random()
        if axes and draw < 0.04:
            axis = self.r.choice(axes)
            return Formula(axis.value * 1, 0, axis.extent - 1)
        if self.stages and draw < 0.6:
            return self.read(self.r.choice(self.stages), axes)
        if self.inputs and draw < 0.75:
            return self.read(self.r.choice(self.inputs), axes)
        return self.fresh_input(axes)

    def read(self, known: Known, axes: list[Axis]) -> Formula:
        extents = known.tensor.shape
        first = axes[: len(extents)]
        if tuple(a.extent for a in first) == extents and self.r.random() < 0.5:
            return _load(known, [Index(a.value, a.extent - 1) for a in first])
        return _load(known, [self.index(axes, extent) for extent in extents])

    def fresh_input(self, axes: list[Axis]) -> Formula:
        """A new input, as large as its indices need."""
        chosen = [a for a in axes if self.r.random() < 0.8][:4]
        if self.r.random() < 0.3:
            self.r.shuffle(chosen)
        indices: list[Index] = []
        for axis in chosen:
            index = self.affine(axis, axes) if self.r.random() < 0.35 else None
            indices.append(index or Index(axis.value, axis.extent - 1))
        shape: tuple[int, ...] = ()
        for index in indices:
            shape = (*shape, index.high + 1 + (self.r.random() < 0.15))
        if prod(shape) > 20 * POINTS:
            return self.fresh_input(axes)
        return _load(self.new_input(shape), indices)

    def new_input(self, shape: tuple[int, ...]) -> Known:
        dtype = self.r.choice((*DTYPE_NAMES, "float32", "float32"))
        constant = self.r.random() < 0.3
        name = f"x{len(self.inputs)}"
        tensor = ansor.placeholder(shape, dtype, name=name, constant=constant)
        known = Known(tensor, *_bounds(self.r, dtype))
        self.inputs.append(known)
        return known

    # -- indices -----------------------------------------------------------------

    def affine(self, axis: Axis, axes: list[Axis]) -> Index | None:
        """A window, a stride, a mirror image, or digits of an axis."""
        v, n = axis.value, axis.extent
        step, gap = self.r.choice((1, 2, 3)), self.r.choice((1, 2))
        other = self.r.choice(axes)
        match self.r.randrange(6):
            case 0 if other is not axis:
                high = (n - 1) * step + (other.extent - 1) * gap
                return Index(v * step + other.value * gap, high)
            case 1:
                return Index(v * step + gap, (n - 1) * step + gap)
            case 2:
                return Index(n - 1 - v, n - 1)
            case 3:
                return Index(v // (step + 1), (n - 1) // (step + 1))
            case 4:
                return Index(v % (step + 1), min(n - 1, step))
            case 5 if other is not axis:
                flat = v * other.extent + other.value
                return Index(flat // step, (n * other.extent - 1) // step)
        return None

    def index(self, axes: list[Axis], extent: int) -> Index:
        """Some index into a dimension that exists already."""
        found = self.fitting(axes, extent)
        draw = self.r.random()
        if draw < 0.15 and axes:
            axis = self.r.choice(axes)
            return self.padded(axis, extent)
        if draw < 0.25 and axes:
            return self.gathered(axes, extent)
        if draw < 0.35 and axes:
            axis = self.r.choice(axes)
            return Index(axis.value % extent, extent - 1)
        return self.r.choice(found) if found else Index(self.r.randrange(extent), 0)

    def fitting(self, axes: list[Axis], extent: int) -> list[Index]:
        found: list[Index] = []
        for axis in axes:
            if axis.extent == extent:
                found += [Index(axis.value, 0)] * 4
                found.append(Index(extent - 1 - axis.value, 0))
            elif axis.extent < extent:
                room = extent - axis.extent
                found.append(Index(axis.value + self.r.randint(0, room), 0))
                step = (extent - 1) // max(axis.extent - 1, 1)
                found.append(Index(axis.value * step, 0))
            else:
                by = -(-axis.extent // extent)
                found.append(Index(axis.value // by, 0))
        for a in axes:
            for b in axes:
                if a is not b and a.extent + b.extent - 1 <= extent:
                    found.append(Index(a.value + b.value, 0))
        return found

    def padded(self, axis: Axis, extent: int) -> Index:
        shift = self.r.choice((-2, -1, 1, 3))
        moved = axis.value + shift
        return Index(moved, 0, (moved >= 0) & (moved < extent))

    def gathered(self, axes: list[Axis], extent: int) -> Index:
        """An index that another tensor holds."""
        axis = self.r.choice(axes)
        whole = [k for k in (*self.inputs, *self.stages) if self.indexes(k, extent)]
        known = self.r.choice(whole) if whole else self.positions(axis.extent, extent)
        indices = [self.r.choice([*self.fitting([axis], e), Index(0, 0)])
                   for e in known.tensor.shape]  # fmt: skip
        return Index(known.tensor[tuple(i.value for i in indices)], 0)

    def indexes(self, known: Known, extent: int) -> bool:
        inside = known.low >= 0 and known.high < extent
        return known.tensor.dtype in INTS and inside

    def positions(self, count: int, extent: int) -> Known:
        name, dtype = f"x{len(self.inputs)}", self.r.choice(INTS)
        tensor = ansor.placeholder((count,), dtype, name=name)
        self.inputs.append(Known(tensor, 0, extent - 1))
        return self.inputs[-1]


def _before(kind: str, x: Formula, many: int) -> Formula:
    """A float small enough to be summed or multiplied up."""
    if kind == "sum" and x.size * many > 20_000:
        return Formula(ansor.tanh(x.value), -1, 1)
    if kind == "prod":
        return Formula(1.0 + 0.2 * ansor.sin(x.value), 0.8, 1.2)
    return x


def _load(known: Known, indices: list[Index]) -> Formula:
    value = known.tensor[tuple(index.value for index in indices)]
    guards = [index.guard for index in indices if index.guard is not None]
    if not guards:
        return Formula(value, known.low, known.high)
    condition = guards[0]
    for guard in guards[1:]:
        condition = condition & guard
    other: float | bool = 0 if known.tensor.dtype != "bool" else False
    low, high = min(known.low, 0), max(known.high, 0)
    return Formula(ansor.select(condition, value, other), low, high)


def _bounds(r: Random, dtype: str) -> tuple[float, float]:
    if dtype == "bool":
        return 0, 1
    if dtype in FLOATS:
        return r.choice(((-2.0, 2.0), (0.25, 2.0)))
    least, greatest = limits(dtype)
    small = (max(least, -9), 9)
    return r.choice((small, small, (0, 2), (least, greatest)))


def values(known: Known, rng: np.random.Generator) -> np.ndarray:
    """An array for an input; floats are eighths, which every type holds exactly."""
    dtype, shape = known.tensor.dtype, known.tensor.shape
    if dtype in FLOATS:
        steps = rng.integers(int(known.low * 8), int(known.high * 8) + 1, shape)
        return np.asarray(steps / 8).astype(DTYPES[dtype].numpy)
    whole = rng.integers(int(known.low), int(known.high), shape, endpoint=True)
    return np.asarray(whole).astype(DTYPES[dtype].numpy)
