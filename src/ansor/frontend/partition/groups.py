"""Which nodes run together: each group is one kernel with one result.

A group has a core, a product or a reduction, or none. Around it:
  products take what follows them element by element, later products first, so that
  the sum of two branches goes to the one that is finished last;
  then reductions do;
  then what is left goes into its reader, if only one group reads it and nothing
  costly is thereby computed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ansor.frontend.graph import Graph, Value
from ansor.frontend.operators import operator
from ansor.frontend.operators.operator import Kind
from ansor.frontend.partition.strides import PLACES, reads_in_place
from ansor.frontend.passes.facts import ELEMENTWISE, ints, uniform
from ansor.frontend.passes.orders import long_axes

MOST_INPUTS = 16
MOST_NODES = 24
MOST_REPEATS = 64  # of cheap work, where a small operand is broadcast

COSTLY = frozenset(
    (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "asinh",
        "acosh",
        "atanh",
        "erf",
        "sigmoid",
        "log_sigmoid",
        "softplus",
        "mish",
        "silu",
        "gelu",
        "elu",
        "selu",
        "celu",
        "power",
        "atan2",
    )
)
WINDOWS = frozenset(("max_pool", "max_pool_indices", "avg_pool", "lp_pool", "lrn"))
EXIT = -1


@dataclass
class Group:
    """Numbers of nodes; the last one's outputs are the group's."""

    core: int | None
    tip: int
    nodes: set[int] = field(default_factory=set)
    repeats: dict[int, float] = field(default_factory=dict)  # evaluations per element
    feeds_core: set[int] = field(default_factory=set)


class Grouping:
    """The groups of a graph, and what stands alone."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = graph.nodes
        self.number = {
            value.name: n for n, node in enumerate(self.nodes) for value in node.outputs
        }
        self.readers = self._all_readers()
        self.outputs = {value.name for value in graph.outputs}
        self.group: dict[int, Group] = {}
        self.numbers = {
            name for name, x in graph.constants.items() if uniform(x) is not None
        }
        self.kinds = [operator(node.op).kind for node in self.nodes]
        self.ends = self._post_dominators()
        self.inside = self._read_in_place()
        self._make()

    def groups(self) -> list[Group]:
        """In an order in which they can run."""
        found = {id(group): group for group in self.group.values()}
        return sorted(found.values(), key=lambda group: group.tip)

    def views(self) -> Iterator[int]:
        """Nodes that need no code: views outside any group."""
        for n, kind in enumerate(self.kinds):
            if kind == Kind.VIEW and n not in self.group and n not in self.inside:
                yield n

    # What is known before anything is grouped.

    def _all_readers(self) -> list[list[int]]:
        found: list[dict[int, None]] = [{} for _ in self.nodes]
        for n, node in enumerate(self.nodes):
            for value in node.inputs:
                maker = self.number.get(value.name)
                if maker is not None:
                    found[maker][n] = None
        return [list(x) for x in found]

    def _is_output(self, n: int) -> bool:
        return any(value.name in self.outputs for value in self.nodes[n].outputs)

    def _post_dominators(self) -> list[int]:
        """For each node the next one that all paths to the outputs lead through."""
        ends = [EXIT] * len(self.nodes)
        depth = [0] * len(self.nodes)

        def common(a: int, b: int) -> int:
            while a != b:
                if a == EXIT or b == EXIT:
                    return EXIT
                if depth[a] >= depth[b]:
                    a = ends[a]
                else:
                    b = ends[b]
            return a

        for n in reversed(range(len(self.nodes))):
            readers = self.readers[n]
            if readers and not self._is_output(n):
                end = readers[0]
                for other in readers[1:]:
                    end = common(end, other)
                ends[n] = end
            depth[n] = 1 if ends[n] == EXIT else depth[ends[n]] + 1
        return ends

    def _read_in_place(self) -> set[int]:
        """Nodes of PLACES that all readers, products, take over as index arithmetic."""
        good: dict[int, bool] = {}
        for n in reversed(range(len(self.nodes))):
            if self.nodes[n].op not in PLACES or self._is_output(n):
                continue
            good[n] = bool(self.readers[n]) and all(
                self._takes_over(reader, n, good) for reader in self.readers[n]
            )
        inside = {n for n, fine in good.items() if fine}
        for n in sorted(inside):  # a view of what lies there anyway needs no code
            maker = self.number.get(self.nodes[n].inputs[0].name)
            if self.kinds[n] == Kind.VIEW and maker not in inside:
                inside.remove(n)
        return inside

    def _takes_over(self, reader: int, n: int, good: dict[int, bool]) -> bool:
        """True if every product behind `reader` reads node n in place."""
        if self.kinds[reader] == Kind.ANCHOR:
            return self._fits(reader, [n])
        if not good.get(reader, False):
            return False
        return all(self._fits(end, path) for end, path in self._ends_of(reader, [n]))

    def _ends_of(self, n: int, before: list[int]) -> Iterator[tuple[int, list[int]]]:
        """The products that a node of PLACES leads to, and the way there."""
        way = [*before, n]
        for reader in self.readers[n]:
            if self.kinds[reader] == Kind.ANCHOR:
                yield reader, way
            else:
                yield from self._ends_of(reader, way)

    def _fits(self, reader: int, way: list[int]) -> bool:
        node = self.nodes[reader]
        chain = [self.nodes[n] for n in way]
        return all(
            reads_in_place(node, operand, chain)
            for operand, value in enumerate(node.inputs)
            if value == chain[-1].output
        )

    # Growing.

    def _make(self) -> None:
        for kind in (Kind.ANCHOR, Kind.REDUCTION):
            for n in reversed(range(len(self.nodes))):
                if self.kinds[n] == kind:
                    self._grow(self._start(n, core=n))
        for n in reversed(range(len(self.nodes))):
            if n in self.group or n in self.inside:
                continue
            if self.kinds[n] == Kind.VIEW:
                if self._is_bridge(n):
                    self._join(n)
            elif not self._join(n):
                self._start(n, core=None)

    def _start(self, n: int, core: int | None) -> Group:
        group = Group(core, n, {n}, {n: 1.0})
        self.group[n] = group
        return group

    def _grow(self, group: Group) -> None:
        """Take what follows a core, region by region, as long as it fits."""
        if len(self.nodes[group.tip].outputs) > 1:
            return
        pending: set[int] = set()  # views, which a group does not end in
        tip = group.tip
        while True:
            end = self.ends[tip]
            region = pending | self._between(tip, end)
            if end == EXIT or not self._follows(group, tip, region):
                return
            tip = end
            if self.nodes[end].op == "reshape":
                pending = region
                continue
            pending = set()
            for n in region:
                self.group[n] = group
                group.repeats[n] = 1.0
            group.nodes |= region
            group.tip = end

    def _between(self, start: int, end: int) -> set[int]:
        """The nodes on all ways from one node to another, and that one."""
        found: set[int] = set()
        stack = list(self.readers[start]) if end != EXIT else []
        while stack:
            n = stack.pop()
            if n not in found:
                found.add(n)
                if n != end:
                    stack.extend(self.readers[n])
        return found

    def _follows(self, group: Group, tip: int, region: set[int]) -> bool:
        shape = self.nodes[tip].output.shape
        if any(n in self.group or n in self.inside for n in region):
            return False
        fresh = region - {tip}
        if len(fresh) == 1 and self._is_rearranged(next(iter(fresh)), shape):
            return not all(map(self._is_copied, fresh))
        if not all(self._is_epilogue(n, shape) for n in fresh):
            return False
        return self._is_small(group, region)

    def _is_epilogue(self, n: int, shape: tuple[int, ...]) -> bool:
        node = self.nodes[n]
        return node.op in ELEMENTWISE and node.output.shape == shape

    def _is_rearranged(self, n: int, shape: tuple[int, ...]) -> bool:
        """True for a node that only changes the order of axes, but for the last one,
        or splits them."""
        node = self.nodes[n]
        if node.op == "transpose":
            order = long_axes(ints(node, "axes"), shape)
            return order[-1:] == tuple(sorted(order))[-1:]
        return node.op == "reshape" and _splits(shape, node.output.shape)

    def _is_copied(self, n: int) -> bool:
        """True if a node that moves elements reads the result, so that a change of
        their order costs nothing there."""
        if self.nodes[n].op == "reshape":
            return False
        reader = self.ends[n]
        while reader != EXIT and self.kinds[reader] == Kind.VIEW:
            reader = self.ends[reader]
        if reader == EXIT or reader in self.group or reader in self.inside:
            return False
        op = self.nodes[reader].op
        return self.kinds[reader] == Kind.INJECTIVE and op not in ELEMENTWISE

    def _is_bridge(self, n: int) -> bool:
        """True for a view between nodes that move elements, which does not touch the
        last axis."""
        (x,) = self.nodes[n].inputs
        maker = self.number.get(x.name)
        ends = [[m for m in shape if m > 1][-1:]
                for shape in (x.shape, self.nodes[n].output.shape)]  # fmt: skip
        return (
            ends[0] == ends[1]
            and maker is not None
            and maker not in self.group
            and maker not in self.inside
            and self.nodes[maker].op in ("transpose", "slice")
            and self.readers[maker] == [n]
            and not self._is_output(maker)
            and all(r in self.group and self.group[r].core is None
                    for r in self.readers[n])
        )  # fmt: skip

    def _is_small(self, group: Group, more: set[int]) -> bool:
        nodes = group.nodes | more
        return len(nodes) <= MOST_NODES and len(self.inputs(nodes)) <= MOST_INPUTS

    def inputs(self, nodes: set[int]) -> list[Value]:
        """What nodes read from outside, but for numbers, in order."""
        found: dict[str, Value] = {}
        for n in sorted(nodes):
            for value in self.nodes[n].inputs:
                if self.number.get(value.name) not in nodes:
                    found[value.name] = value
        return [v for v in found.values() if v.name not in self.numbers]

    # Joining readers.

    def _join(self, n: int) -> bool:
        """Put a node into the group of its readers, if they are in one that lets it."""
        readers = self.readers[n]
        groups = {id(self.group[r]): self.group[r] for r in readers if r in self.group}
        outside = any(r not in self.group for r in readers)
        if len(groups) != 1 or outside or self._is_output(n):
            return False
        (group,) = groups.values()
        if len(self.nodes[n].outputs) > 1 or not self._accepts(group, n):
            return False
        group.nodes.add(n)
        group.repeats[n] = self._repeats(group, n)
        if any(r == group.core or r in group.feeds_core for r in readers):
            group.feeds_core.add(n)
        self.group[n] = group
        return True

    def _accepts(self, group: Group, n: int) -> bool:
        feeds = any(r == group.core or r in group.feeds_core for r in self.readers[n])
        if not self._is_small(group, {n}):
            return False
        if self._repeats(group, n) > (1 if self._is_costly(n) else MOST_REPEATS):
            return False
        if group.core is None:
            return True
        if self.kinds[group.core] == Kind.ANCHOR:
            return not feeds and self.nodes[n].op in (*ELEMENTWISE, "slice", "expand")
        if feeds and self.nodes[group.core].op in WINDOWS:
            return False
        return not feeds or self.nodes[n].op not in ("pad", "concat")

    def _is_costly(self, n: int) -> bool:
        return self.nodes[n].op in COSTLY

    def _repeats(self, group: Group, n: int) -> float:
        """How often an element of node n is computed if it is in the group."""
        own = max(1, self.nodes[n].output.size)
        times = [
            group.repeats[r]
            * max(1.0, self.nodes[r].outputs[0].size / own)
            * (2 if r == group.core else 1)
            for r in self.readers[n]
        ]
        return max(times)


def _splits(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """True if a reshape splits axes, and adds or leaves out those of extent 1."""
    rest = [n for n in new if n > 1]
    for extent in (n for n in old if n > 1):
        size = 1
        while size < extent and rest:
            size *= rest.pop(0)
        if size != extent:
            return False
    return not rest
