"""Coordinates of one program as index expressions over its loop variables."""

from ansor.ir.affine import Linear, linear
from ansor.ir.expr import Binary, Const, Expr, Var
from ansor.schedule.bounds import Atom, Bounds, Value
from ansor.schedule.plan import FuseRelation, Nest, SplitRelation


class Coordinates:
    """Expressions for the values that `bounds` describes; one point only."""

    def __init__(self, bounds: Bounds) -> None:
        assert bounds.points.count == 1, "lowering takes one program at a time"
        self.bounds = bounds
        self._atoms: dict[Atom, Linear] = {}

    def extent(self, stage: str, node: str) -> int:
        return int(self.bounds.extent(stage, node)[0])

    def variable(self, stage: str, loop: str) -> Var:
        return Var(f"{stage}.{loop}")

    def run_as(self, nest: Nest, loop: str) -> tuple[str, ...]:
        """The loops that run in place of one: the parts of a fused parallel loop, so
        that conditions on each of them stay simple; else the loop itself."""
        if nest.annotations.get(loop) == "parallel":
            for relation in nest.relations:
                if isinstance(relation, FuseRelation) and relation.fused == loop:
                    parts = relation.parts
                    return tuple(x for p in parts for x in self._parts(nest, p))
        return (loop,)

    def _parts(self, nest: Nest, node: str) -> tuple[str, ...]:
        for relation in nest.relations:
            if isinstance(relation, FuseRelation) and relation.fused == node:
                return tuple(x for p in relation.parts for x in self._parts(nest, p))
        return (node,)

    def linear(self, value: Value) -> Linear:
        """The sum that a value stands for."""
        total = Linear(int(value.const[0]))
        for atom, coefficient in value.terms.items():
            total = total.plus(self.atom(atom), int(coefficient[0]))
        return total

    def local(self, stage: str, node: str) -> Linear:
        return self.linear(self.bounds.local(stage, node))

    def absolute(self, stage: str, axis: str) -> Linear:
        return self.linear(self.bounds.coordinate(stage, axis))

    def atom(self, atom: Atom) -> Linear:
        if atom not in self._atoms:
            self._atoms[atom] = linear(self._expr(atom))
        return self._atoms[atom]

    def _expr(self, atom: Atom) -> Expr:
        nest = self.bounds.plan.nest(atom.stage)
        if atom.is_start:
            split = self.bounds.split_of(nest, atom.node)
            assert split is not None
            return self._start(nest, split)
        fuse = self.bounds.fuse_of(nest, atom.node)
        extent = self.extent(atom.stage, atom.node)
        if extent == 1:
            return Const(0)
        if fuse is None or atom.node in self.run_as(nest, fuse.fused):
            return self.variable(atom.stage, atom.node)
        fused = self.local(atom.stage, fuse.fused).expr()
        at = fuse.parts.index(atom.node)
        below = 1
        for part in fuse.parts[at + 1 :]:
            below *= self.extent(atom.stage, part)
        value = fused if below == 1 else Binary("floordiv", fused, Const(below))
        return value if at == 0 else Binary("mod", value, Const(extent))

    def _start(self, nest: Nest, split: SplitRelation) -> Expr:
        """First element of a moved block: evened out, or shifted inwards."""
        outer = self.local(nest.name, split.parts[0])
        blocks = self.extent(nest.name, split.parts[0])
        block = self.extent(nest.name, split.parts[1])
        total = self.extent(nest.name, split.parent)
        if split.tail == "shift":
            return Binary("min", outer.times(block).expr(), Const(total - block))
        longer = total - blocks * (block - 1)  # blocks that have the full length
        even = outer.times(block - 1).plus(Linear(longer))
        return Binary("min", outer.times(block).expr(), even.expr())

    def guards(self, nest: Nest) -> dict[str, list[Expr]]:
        """Per axis, the conditions under which its iteration does real work."""
        found: dict[str, list[Expr]] = {}
        for axis in (*nest.stage.axes, *nest.stage.reduce_axes):
            conditions = self.split_guards(nest, axis.name)
            if nest.at is not None and axis in nest.stage.axes:
                where = self.absolute(nest.name, axis.name).expr()
                conditions.append(Binary("lt", where, Const(axis.extent)))
                conditions.append(Binary("le", Const(0), where))
            found[axis.name] = conditions
        return found

    def split_guards(self, nest: Nest, node: str) -> list[Expr]:
        """Conditions from splits whose lengths do not divide, on `node` and below."""
        split = self.bounds.split_of(nest, node)
        if split is None:
            return self._fused_guards(nest, node)
        conditions = [c for part in split.parts for c in self.split_guards(nest, part)]
        extent = self.extent(nest.name, node)
        if split.tail == "equal":  # the later blocks lack the last element
            outer, inner = (self.local(nest.name, part) for part in split.parts)
            blocks = self.extent(nest.name, split.parts[0])
            where = outer.plus(inner, blocks).expr()
            conditions.append(Binary("lt", where, Const(extent)))
        elif split.tail == "peel":
            where = self.local(nest.name, node).expr()
            conditions.append(Binary("lt", where, Const(extent)))
        return conditions

    def _fused_guards(self, nest: Nest, node: str) -> list[Expr]:
        fuse = self.bounds.fuse_of(nest, node)
        if fuse is None or fuse.parts[0] != node:
            return []  # the first part speaks for all
        return self.split_guards(nest, fuse.fused)
