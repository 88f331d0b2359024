"""Reading assembly: what is in the innermost loops, and whether registers spill.

Understands what LLVM prints for x86-64 (AT&T or Intel syntax) and AArch64. Loops are
those of the control flow, not of the text: LLVM places blocks it holds to be rare far
from the loop they belong to.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Loop:
    """An innermost loop: its header's label, and what is in its blocks.

    A block belongs to the loop if the header lies on every way to it and it has a way
    back to the header; where in the text it stands is of no matter.

    Counts of instructions. `loads` and `stores` are of vector registers and exclude
    `reloads` and `spills`, those from and to the stack; `broadcasts` read one element
    into all lanes, or take the multiplier from one lane.
    """

    label: str
    instructions: int
    fmas: int
    spills: int
    reloads: int
    broadcasts: int
    loads: int
    stores: int


@dataclass(frozen=True)
class _Line:
    """One instruction."""

    mnemonic: str
    operands: str
    note: str = ""  # LLVM's comment

    @property
    def address(self) -> str:
        """The memory operand, or nothing."""
        found = _MEMORY.search(self.operands)
        return found.group(0) if found else ""

    @property
    def is_vector(self) -> bool:
        return bool(_VECTOR.search(self.operands))

    @property
    def is_spill(self) -> bool:
        """Uses a slot of the stack that LLVM made, not an array of the program.

        The two look the same where LLVM's comments are missing.
        """
        if not _STACK.search(self.address):
            return False
        return not self.note or "Spill" in self.note or "Reload" in self.note

    @property
    def is_fma(self) -> bool:
        return bool(_FMA.match(self.mnemonic))

    @property
    def is_broadcast(self) -> bool:
        lane = self.is_fma and bool(_LANE.search(self.operands))
        return lane or bool(_BROADCAST.search(f"{self.mnemonic} {self.operands}"))

    @property
    def is_store(self) -> bool:
        """Memory is where the result goes: last in AT&T, first in Intel syntax."""
        if self.mnemonic.startswith("st"):
            return True
        if not self.mnemonic.startswith(("v", "mov")):
            return False
        intel = "[" in self.address
        operands = self.operands.strip()
        place = operands if not intel else operands.split(",")[0]
        return place.endswith(self.address) if not intel else "[" in place

    @property
    def targets(self) -> list[str]:
        """Labels in the operands of a branch."""
        return _LABEL_USE.findall(self.operands) if self.is_branch else []

    @property
    def is_branch(self) -> bool:
        return bool(_BRANCH.match(self.mnemonic))

    @property
    def is_end(self) -> bool:
        """Control never goes on to the next instruction."""
        return bool(_END.match(self.mnemonic))

    @property
    def is_indirect(self) -> bool:
        """A jump through a register or a table, or the call of a function."""
        return bool(_INDIRECT.match(self.mnemonic))


@dataclass(frozen=True)
class _Block:
    """Instructions that run one after the other, entered at the first only."""

    label: str  # empty if it is entered from the block above only
    lines: list[_Line] = field(default_factory=list)

    @property
    def is_closed(self) -> bool:
        """The last instruction may go elsewhere than to what follows."""
        return bool(self.lines) and (self.lines[-1].is_branch or self.lines[-1].is_end)


_Edges = list[list[int]]  # per block, the blocks control may go to

_LABEL = re.compile(r"""^("[^"]+"|[.\w$]+):""")  # quoted if of other characters
_LABEL_USE = re.compile(r"(?<![\w.])\.?L[\w.$]+")
_BRANCH = re.compile(r"(?:j\w+|loop\w*|bc?(?:\.\w+)?|cb\w+|tbn?z)$")
_INDIRECT = re.compile(r"(?:jmp\w*|br|bra\w+|notrack)$")
_END = re.compile(rf"{_INDIRECT.pattern}|(?:b|ret\w*|ud2|hlt|brk|udf)$")
_DATA = re.compile(r"^\s*\.(?:byte|short|hword|word|long|quad|xword)\s.*L.*$", re.M)
_MEMORY = re.compile(r"[-\w.$+@:]*\([^)]*\)|(?<![\w}])\[[^\]]*\]!?")  # not lanes
_VECTOR = re.compile(r"%?\b(?:[xyz]mm\d+|[qds]\d+|v\d+(?:\.\w+)?|z\d+\.\w)\b")
_STACK = re.compile(r"%?\b(?:rsp|rbp|sp|x29|fp)\b")
_FMA = re.compile(r"v?fn?m(?:add|sub|la|ls)\w*$|vdp|vpdp|[su]dot|bfdot|bfmmla")
_LANE = re.compile(r"v\d+\.\w+\[\d+\]")
_BROADCAST = re.compile(r"broadcast|\{1to\d+\}|\bld1r|vmovddup|\bmovddup|^dup ")
_COMMENT = re.compile(r"(?:^|\s+)(?:#+|//|;)\s(.*)$")


def loops(assembly: str, function: str) -> list[Loop]:
    """The innermost loops of `function`, in the order of their headers in the text.

    Only loops entered at one place are seen, as LLVM's own analysis does.
    """
    blocks = _blocks(_items(assembly, function))
    inner = _innermost(_edges(blocks, assembly))
    return [
        _loop(blocks[header].label, [line for n in body for line in blocks[n].lines])
        for header, body in inner
    ]


def spills(assembly: str, function: str) -> int:
    """Vector registers stored to or loaded from the stack in innermost loops."""
    return sum(loop.spills + loop.reloads for loop in loops(assembly, function))


def _items(assembly: str, function: str) -> Iterator[str | _Line]:
    """Labels (as text) and instructions of one function."""
    inside = False
    note = "none" if "%bb." in assembly else ""  # the text has comments
    for raw in assembly.splitlines():
        label = _LABEL.match(raw.strip())
        if label:
            name = label.group(1).strip('"')
            inside = name == function or (inside and name.startswith((".L", "L")))
            if inside and name != function:
                yield name
        elif inside and raw.strip().startswith((".size", ".cfi_endproc")):
            inside = False
        elif inside and (line := _line(raw, note)):
            yield line


def _line(raw: str, note: str) -> _Line | None:
    comment = _COMMENT.search(raw)
    text = raw[: comment.start()].strip() if comment else raw.strip()
    if not text or text.startswith((".", "#", "//")):
        return None
    mnemonic, _, operands = text.partition("\t")
    if not operands:
        mnemonic, _, operands = text.partition(" ")
    return _Line(mnemonic, operands, comment.group(1) if comment else note)


def _blocks(items: Iterable[str | _Line]) -> list[_Block]:
    """In the order of the text; the first is where the function begins."""
    blocks = [_Block("")]
    for item in items:
        if isinstance(item, str):
            blocks.append(_Block(item))
            continue
        if blocks[-1].is_closed:
            blocks.append(_Block(""))
        blocks[-1].lines.append(item)
    return blocks


def _edges(blocks: Sequence[_Block], assembly: str) -> _Edges:
    at = {block.label: n for n, block in enumerate(blocks) if block.label}
    tables: list[int] | None = None
    edges: _Edges = []
    for n, block in enumerate(blocks):
        last = block.lines[-1] if block.lines else None
        out = [at[label] for label in (last.targets if last else ()) if label in at]
        if last and last.is_indirect and not out:
            tables = _tables(at, assembly) if tables is None else tables
            out = tables
        if not (last and last.is_end) and n + 1 < len(blocks):
            out = [*out, n + 1]
        edges.append(out)
    return edges


def _tables(at: dict[str, int], assembly: str) -> list[int]:
    """Blocks named by data: where a jump through any table may go."""
    names = {
        name for line in _DATA.findall(assembly) for name in _LABEL_USE.findall(line)
    }
    return [n for label, n in at.items() if label in names]


def _innermost(edges: _Edges) -> list[tuple[int, list[int]]]:
    """Headers and blocks of the loops that have no other loop's header in them."""
    order = _order(edges)
    into: _Edges = [[] for _ in edges]
    for n in order:
        for m in edges[n]:
            into[m].append(n)
    rank = {n: k for k, n in enumerate(order)}
    above = _dominators(order, rank, into)
    ends: dict[int, list[int]] = {}  # per header, the blocks that branch back to it
    for n in order:
        for m in edges[n]:
            if rank[m] <= rank[n] and _dominates(m, n, rank, above):
                ends.setdefault(m, []).append(n)
    bodies = ((header, _body(header, ends, into)) for header in sorted(ends))
    return [(header, sorted(body)) for header, body in bodies if body]


def _order(edges: _Edges) -> list[int]:
    """Blocks that can be reached, each before its successors but for ways back."""
    done: list[int] = []
    seen = {0}
    stack = [(0, iter(edges[0]))]
    while stack:
        n, rest = stack[-1]
        m = next((m for m in rest if m not in seen), None)
        if m is None:
            done.append(n)
            stack.pop()
        else:
            seen.add(m)
            stack.append((m, iter(edges[m])))
    return done[::-1]


def _dominators(
    order: Sequence[int], rank: dict[int, int], into: _Edges
) -> dict[int, int]:
    """Per block, the nearest other block on every way to it; the first has itself."""
    above = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for n in order[1:]:
            known = [m for m in into[n] if m in above]
            near = known[0]
            for m in known[1:]:
                near = _meet(near, m, rank, above)
            if above.get(n) != near:
                above[n] = near
                changed = True
    return above


def _meet(a: int, b: int, rank: dict[int, int], above: dict[int, int]) -> int:
    """The nearest block that dominates both."""
    while a != b:
        if rank[a] > rank[b]:
            a = above[a]
        else:
            b = above[b]
    return a


def _dominates(a: int, b: int, rank: dict[int, int], above: dict[int, int]) -> bool:
    while rank[b] > rank[a]:
        b = above[b]
    return a == b


def _body(header: int, ends: dict[int, list[int]], into: _Edges) -> set[int]:
    """Blocks of the loop, or none if another loop's header is among them."""
    body = {header}
    stack = ends[header][:]
    while stack:
        n = stack.pop()
        if n in body:
            continue
        if n in ends:
            return set()
        body.add(n)
        stack.extend(into[n])
    return body


def _loop(label: str, lines: Sequence[_Line]) -> Loop:
    memory = [line for line in lines if line.address and line.is_vector]
    stores = [line for line in memory if line.is_store]
    loads = [line for line in memory if not line.is_store]
    return Loop(
        label=label,
        instructions=len(lines),
        fmas=sum(line.is_fma for line in lines),
        spills=sum(line.is_spill for line in stores),
        reloads=sum(line.is_spill for line in loads),
        broadcasts=sum(line.is_broadcast for line in lines),
        loads=sum(not line.is_spill for line in loads),
        stores=sum(not line.is_spill for line in stores),
    )
