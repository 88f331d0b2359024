"""Reading assembly: what is in the innermost loops, and whether registers spill.

Understands what LLVM prints for x86-64 (AT&T or Intel syntax) and AArch64.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Loop:
    """An innermost loop: from its label to the branch back to it.

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
    def targets(self) -> tuple[str, ...]:
        """Labels in the operands of a branch."""
        if not _BRANCH.match(self.mnemonic):
            return ()
        return tuple(_LABEL_USE.findall(self.operands))


_LABEL = re.compile(r"^([.\w$]+):")
_LABEL_USE = re.compile(r"(?<![\w.])\.?L[\w.$]+")
_BRANCH = re.compile(r"j\w+|b|b\.\w+|b[a-z]{2}|cbn?z|tbn?z|loop\w*$")
_MEMORY = re.compile(r"[-\w.$+@:]*\([^)]*\)|\[[^\]]*\]!?")
_VECTOR = re.compile(r"%?\b(?:[xyz]mm\d+|[qds]\d+|v\d+(?:\.\w+)?|z\d+\.\w)\b")
_STACK = re.compile(r"%?\b(?:rsp|rbp|sp|x29|fp)\b")
_FMA = re.compile(r"v?fn?m(?:add|sub|la|ls)\w*$|vdp|vpdp|[su]dot|bfdot|bfmmla")
_LANE = re.compile(r"v\d+\.\w+\[\d+\]")
_BROADCAST = re.compile(r"broadcast|\{1to\d+\}|\bld1r|vmovddup|\bmovddup|^dup ")
_COMMENT = re.compile(r"\s+(?:#+|//|;)\s(.*)$")


def loops(assembly: str, function: str) -> list[Loop]:
    """The innermost loops of `function`, in the order of the text."""
    items = list(_items(assembly, function))
    at = {item: n for n, item in enumerate(items) if isinstance(item, str)}
    backward = [
        (at[label], n)
        for n, item in enumerate(items)
        if isinstance(item, _Line)
        for label in item.targets
        if at.get(label, n) < n
    ]
    spans: dict[int, int] = {}  # of several branches back to one label, the last
    for begin, end in backward:
        spans[begin] = max(end, spans.get(begin, end))
    inner = [
        (begin, end)
        for begin, end in sorted(spans.items())
        if not any(begin < b and e <= end for b, e in spans.items())
    ]
    return [_loop(items[begin : end + 1]) for begin, end in inner]


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
            name = label.group(1)
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
    if not text or text.startswith("."):
        return None
    mnemonic, _, operands = text.partition("\t")
    if not operands:
        mnemonic, _, operands = text.partition(" ")
    return _Line(mnemonic, operands, comment.group(1) if comment else note)


def _loop(items: list[str | _Line]) -> Loop:
    label = str(items[0])
    lines = [item for item in items if isinstance(item, _Line)]
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
