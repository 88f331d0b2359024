"""Loop functions to LLVM text: statements, loops, addresses, parallel regions.

The text says what we mean, so that LLVM has little left to decide: vectors and masks
are explicit, addresses are summed up in the loop where they change, every buffer has
an alias scope of its own, and small buffers that are only indexed by constants become
one stack slot per value, which LLVM turns into registers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ansor.codegen.loops import Bound, bounds
from ansor.codegen.maths import declarations, definition
from ansor.codegen.module import Module, element_bytes
from ansor.codegen.slots import fixed_buffers, used_buffers
from ansor.codegen.values import Slots, Values
from ansor.errors import CodegenError
from ansor.ir.affine import Linear, weighted
from ansor.ir.expr import Buffer, Expr, Ramp, Var
from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Stmt, Store
from ansor.ir.visit import children, expressions, loads, statements, variables
from ansor.target.target import Target

MAX_STACK = 8192  # bytes of one buffer on the stack; larger ones come from the heap
# Of one buffer. Copies of a statement have memory each, as pointers into one block
# would stay in registers from copy to copy; many copies (unrolled) take turns.
MAX_BLOCKS = 16
ALIGN = 64
NO_UNROLL = '!{!"llvm.loop.unroll.disable"}'


def emit(functions: Iterable[Function], target: Target) -> str:
    """The LLVM module of some loop functions, each `void name(ptr, ptr, …)`."""
    module = Module(target)
    for function in functions:
        _Emitter(module, target).function(function)
    return _finish(module, target)


def _finish(module: Module, target: Target) -> str:
    for name, dtype, lanes in sorted(module.maths):
        module.declared.update(
            dict.fromkeys(declarations(name, dtype, lanes, target.has_fma))
        )
        tables = target.arch == "aarch64"
        module.functions.append(definition(name, dtype, lanes, target.has_fma, tables))
    attributes = ["nounwind", '"no-trapping-math"="true"']
    if target.vector_bits >= 512:
        attributes += [f'"prefer-vector-width"="{target.vector_bits}"',
                       f'"min-legal-vector-width"="{target.vector_bits}"']  # fmt: skip
    return "\n".join([
        *sorted(module.declared),
        *module.functions,
        f"attributes #0 = {{ {' '.join(attributes)} }}",
        *module.metadata,
        "",
    ])  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sum:
    """An address but for its constant part."""

    pointer: str
    loaded: list[tuple[Expr, int]]  # still to be added
    form: Linear  # kept alive, as its terms are known by their ids


@dataclass
class Frame:
    """The body of a function or loop; `head` runs first, each time.

    In an innermost loop that starts at 0, pointers step along: `phis` holds them, and
    `steps` moves them on at the end. `entry` is the block before such a loop.
    """

    head: list[object]
    variables: set[str]
    entry: str = ""
    latch: str = ""
    phis: list[object] = field(default_factory=list)
    steps: list[object] = field(default_factory=list)
    pointers: dict[tuple[object, ...], str] = field(default_factory=dict)
    indices: dict[Expr, str] = field(default_factory=dict)
    sums: dict[tuple[object, ...], Sum] = field(default_factory=dict)


class _Emitter(Values):
    """Emits one function and the bodies of its parallel loops."""

    def __init__(self, module: Module, target: Target) -> None:
        super().__init__(module, target)
        self.frames: list[Frame] = []
        self.entry: list[str] = []
        self.scratch = 0
        self.memory: dict[Buffer, list[str]] = {}  # see MAX_BLOCKS
        # By the id of the indices, which unrolled copies share, and the buffer.
        self.flats: dict[tuple[int, str], tuple[Linear, int]] = {}
        self.buffers: dict[str, Buffer] = {}
        self.slots: dict[str, Slots] = {}
        self.parallel = 0  # depth

    # -- functions ---------------------------------------------------------------

    def function(self, function: Function) -> None:
        inputs = len(function.parameters) - function.outputs
        parameters = []
        for at, buffer in enumerate(function.parameters):
            name = f"%p{at}"
            access = "readonly " if at < inputs else ""
            align = element_bytes(buffer.dtype)
            parameters.append(f"ptr noalias {access}align {align} {name}")
            self.buffers[buffer.name] = buffer
            self.bases[buffer.name] = name
        self.name = function.name
        self.fixed = fixed_buffers(function.body)
        allocated = [s.buffer.name for s in statements(function.body)
                     if isinstance(s, Allocate)]  # fmt: skip
        self.module.reserve(list(dict.fromkeys((*self.buffers, *allocated))))
        self.open_frame(set())
        self.stmt(function.body)
        header = f'define void @"{function.name}"({", ".join(parameters)}) #0 {{'
        self.close(header)

    def close(self, header: str) -> None:
        """Finish the function being emitted."""
        if self.scratch:
            self.module.declare("noalias ptr @ansor_scratch_acquire(i64)")
            self.module.declare("void @ansor_scratch_release(ptr)")
            self.entry.insert(
                0, f"  %scratch = call ptr @ansor_scratch_acquire(i64 {self.scratch})"
            )
            self.line("call void @ansor_scratch_release(ptr %scratch)")
        self.line("ret void")
        lines = [header, "entry:", *self.entry, *_flat(self.lines), "}"]
        self.module.functions.append("\n".join(lines))

    def open_frame(self, names: set[str], entry: str = "", latch: str = "") -> Frame:
        frame = Frame([], names, entry, latch)
        self.frames.append(frame)
        self.lines += [frame.phis, frame.head]
        return frame

    # -- statements --------------------------------------------------------------

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case For(kind="parallel") if self.parallel == 0:
                self.parallel_loop(stmt)
            case For(kind="serial" | "parallel"):
                self.loop(stmt)
            case For():
                raise CodegenError(
                    f"loop {stmt.var}",
                    f"{stmt.thread or stmt.kind} has no CPU code",
                    "use parallel, vectorize or unroll",
                )
            case Store():
                self.store(stmt)
            case If():
                self.branch(stmt)
            case Seq(stmts):
                for child in stmts:
                    self.stmt(child)
            case Allocate(buffer, body):
                self.allocate(buffer)
                self.stmt(body)
            case Prefetch():
                self.prefetch(stmt)

    def loop(self, loop: For, begin: str = "0", end: str | None = None) -> None:
        """A counted loop; the test is at its end. Conditions that hold up to some
        iteration are its bound."""
        end = str(loop.extent) if end is None else end
        label, done = self.label("loop"), self.label("done")
        variable, following = self.fresh("i"), self.fresh("n")
        body, may_be_empty = loop.body, False
        if begin == "0":
            body, limits = bounds(loop)
            for limit in limits:
                end = self.least(end, limit)
                may_be_empty |= limit.form.interval(self.ranges)[1] >= limit.total
        before, latch = self.block, self.label("latch")
        if may_be_empty:
            some = self.fresh("b")
            self.line(f"{some} = icmp sgt i64 {end}, 0")
            self.line(f"br i1 {some}, label %{label}, label %{done}")
            self.begin_block(label)
        else:
            self.start_block(label)
        self.lines.append(
            f"  {variable} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]"
        )
        self.variables[loop.var.name] = variable
        self.ranges[loop.var.name] = (0, loop.extent - 1)
        steps = begin == "0" and not any(isinstance(s, For) for s in statements(body))
        frame = self.open_frame({loop.var.name}, before if steps else "", latch)
        self.loaded = {}
        self.stmt(body)
        self.frames.pop()
        self.start_block(latch)
        self.lines.append(frame.steps)
        self.lines.append(f"  {following} = add nuw nsw i64 {variable}, 1")
        self.lines.append(f"  %{latch}.c = icmp slt i64 {following}, {end}")
        tag = self.module.loop_tag(NO_UNROLL)
        self.lines.append(
            f"  br i1 %{latch}.c, label %{label}, label %{done}, !llvm.loop {tag}"
        )
        self.begin_block(done)
        self.loaded = {}

    def least(self, end: str, limit: Bound) -> str:
        """The iterations of a loop up to which one more condition holds."""
        rest = self.expr(limit.form.expr()).name
        name = self.fresh("b")
        self.line(f"{name} = sub nsw i64 {limit.total + limit.step - 1}, {rest}")
        if limit.step > 1:
            quotient = self.fresh("b")
            self.line(f"{quotient} = sdiv i64 {name}, {limit.step}")
            name = quotient
        declaration = "i64 @llvm.smin.i64(i64, i64)"
        self.module.declare(declaration)
        smaller = self.fresh("b")
        self.line(f"{smaller} = call i64 @llvm.smin.i64(i64 {end}, i64 {name})")
        return smaller

    def branch(self, stmt: If) -> None:
        then, otherwise, done = (self.label(n) for n in ("then", "else", "end"))
        condition = self.expr(stmt.condition)
        target = done if stmt.otherwise is None else otherwise
        self.line(f"br i1 {condition.name}, label %{then}, label %{target}")
        cached = dict(self.loaded)
        self.begin_block(then)
        self.stmt(stmt.then)
        self.line(f"br label %{done}")
        if stmt.otherwise is not None:
            self.loaded = dict(cached)
            self.begin_block(otherwise)
            self.stmt(stmt.otherwise)
            self.line(f"br label %{done}")
        self.begin_block(done)
        self.loaded = {}

    def allocate(self, buffer: Buffer) -> None:
        """Give a buffer its place: registers, stack, or a part of the scratch block."""
        self.buffers[buffer.name] = buffer
        places = self.fixed.get(buffer.name)
        if places is not None and buffer.bytes <= MAX_STACK:
            self.slots[buffer.name] = Slots(
                {p: self.stack_slot(buffer.dtype, p[1]) for p in places},
                {p for p, counts in places.items() if len(counts) > 1},
            )
            return
        self.slots.pop(buffer.name, None)
        blocks = self.memory.setdefault(buffer, [])
        if len(blocks) < MAX_BLOCKS:
            blocks.append(self.reserve(buffer))
        else:
            blocks.append(blocks.pop(0))  # the copies run one after another
        self.bases[buffer.name] = blocks[-1]

    def reserve(self, buffer: Buffer) -> str:
        """Memory that this function has for a buffer."""
        name = self.fresh("buf")
        size = buffer.bytes + ALIGN  # a vector may read past the end
        if buffer.bytes <= MAX_STACK:
            self.entry.append(f"  {name} = alloca [{size} x i8], align {ALIGN}")
        else:
            where = self.scratch
            self.entry.append(
                f"  {name} = getelementptr inbounds i8, ptr %scratch, i64 {where}"
            )
            self.scratch += -(-size // ALIGN) * ALIGN
        return name

    def stack_slot(self, dtype: str, lanes: int) -> str:
        name = self.fresh("slot")
        self.entry.append(f"  {name} = alloca {self.type(dtype, lanes)}")
        return name

    def prefetch(self, stmt: Prefetch) -> None:
        pointer = self.pointer(stmt.buffer, self.flat(stmt.buffer, stmt.indices)[0])
        self.module.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        write = int(stmt.write)
        self.line(
            f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {write}, i32 3, i32 1)"
        )

    # -- parallel loops ----------------------------------------------------------

    def parallel_loop(self, loop: For) -> None:
        """Outline the body as `body(context, begin, end)` and hand it to the pool."""
        inner = _Emitter(self.module, self.target)
        number = len(self.module.functions)  # a loop may occur in several copies
        inner.name = f"{self.name}.{loop.var.name}.{number}"
        inner.fixed = self.fixed
        inner.parallel = 1
        inner.ranges = dict(self.ranges)
        used = used_buffers(loop.body)
        shared = [name for name in self.bases if name in used]
        free = _free_variables(loop)
        outer = [name for name in self.variables if name in free]
        words = [f"ptr {self.bases[name]}" for name in shared]
        words += [f"i64 {self.variables[name]}" for name in outer]
        context = self.fresh("context")
        self.entry.append(f"  {context} = alloca [{max(len(words), 1)} x i64], align 8")
        for at, word in enumerate(words):
            place = self.fresh("c")
            self.line(f"{place} = getelementptr inbounds i64, ptr {context}, i64 {at}")
            self.line(f"store {word}, ptr {place}, align 8")
        for at, name in enumerate((*shared, *outer)):
            kind = "ptr" if at < len(shared) else "i64"
            place, value = f"%c{at}", f"%v{at}"
            inner.entry.append(
                f"  {place} = getelementptr inbounds i64, ptr %context, i64 {at}"
            )
            inner.entry.append(f"  {value} = load {kind}, ptr {place}, align 8")
            if kind == "ptr":
                inner.bases[name] = value
                inner.buffers[name] = self.buffers[name]
            else:
                inner.variables[name] = value
        inner.open_frame(set(outer))
        inner.loop(loop, "%begin", "%end")
        inner.close(
            f'define internal void @"{inner.name}"'
            "(ptr noalias readonly %context, i64 %begin, i64 %end) #0 {"
        )
        self.module.declare("void @ansor_parallel_for(ptr, ptr, i64)")
        self.line(
            f'call void @ansor_parallel_for(ptr @"{inner.name}", ptr {context}, '
            f"i64 {loop.extent})"
        )
        self.loaded = {}

    # -- addresses ---------------------------------------------------------------

    def flat(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Linear, int]:
        """The element offset of an access, and how far lanes lie apart."""
        key = (id(indices), buffer.name)
        found = self.flats.get(key)
        if found is None:
            found = self.flats[key] = self._flat(buffer, indices)
        return found

    def _flat(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Linear, int]:
        apart = 0
        parts: list[tuple[Expr, int]] = []
        for index, stride in zip(indices, buffer.strides, strict=True):
            if isinstance(index, Ramp):
                apart += index.stride * stride
                index = index.base
            parts.append((index, stride))
        return weighted(parts), apart

    def depth(self, atom: Expr) -> int:
        """The innermost frame that decides the value of an index."""
        names = {atom.name} if isinstance(atom, Var) else variables(atom)
        for at in range(len(self.frames) - 1, 0, -1):
            if not names.isdisjoint(self.frames[at].variables):
                return at
        return 0

    def pointer(self, buffer: Buffer, form: Linear) -> str:
        """The address of an element: a sum, each part added where it changes.

        Parts of the sum may lie outside the buffer, and so may what is prefetched:
        these are not `inbounds`.
        """
        base = self.bases[buffer.name]
        inner = self.frames[-1]
        place = (base, *((id(atom), c) for atom, c in form.terms.items()))
        known = inner.sums.get(place)
        if known is None:
            known = inner.sums[place] = self.summed(buffer, form)
        rest = self.offset(known.loaded, self.lines) if known.loaded else None
        element = self.memory_type(buffer.dtype)
        return self.step(known.pointer, element, rest, form.const)

    def summed(self, buffer: Buffer, form: Linear) -> Sum:
        """The address without what is constant, and what has to be loaded for it."""
        pointer = self.bases[buffer.name]
        key: tuple[object, ...] = (pointer,)
        groups: dict[int, list[tuple[Expr, int]]] = {}
        loaded: list[tuple[Expr, int]] = []  # memory may have changed since the head
        for atom, coefficient in form.terms.items():
            reads = not isinstance(atom, Var) and any(True for _ in loads(atom))
            group = loaded if reads else groups.setdefault(self.depth(atom), [])
            group.append((atom, coefficient))
        element = self.memory_type(buffer.dtype)
        for depth in sorted(groups):
            frame = self.frames[depth]
            terms = sorted(groups[depth], key=lambda term: str(term[0]))
            key = (*key, depth, *terms)
            if key not in frame.pointers:
                frame.pointers[key] = self.moved(frame, pointer, element, terms)
            pointer = frame.pointers[key]
        return Sum(pointer, loaded, form)

    def moved(
        self, frame: Frame, pointer: str, element: str, terms: list[tuple[Expr, int]]
    ) -> str:
        """A pointer plus some terms that change in one frame."""
        name = self.fresh("a")
        (atom, stride), *others = terms
        if frame.entry and isinstance(atom, Var) and not others:
            following = self.fresh("a")
            frame.phis.append(
                f"  {name} = phi ptr [ {pointer}, %{frame.entry} ], "
                f"[ {following}, %{frame.latch} ]"
            )
            frame.steps.append(
                f"  {following} = getelementptr {element}, ptr {name}, i64 {stride}"
            )
        else:
            offset = self.offset(terms, frame.head, frame)
            frame.head.append(
                f"  {name} = getelementptr {element}, ptr {pointer}, i64 {offset}"
            )
        return name

    def step(self, pointer: str, element: str, offset: str | None, const: int) -> str:
        for amount in (offset, const or None):
            if amount is not None:
                key = (pointer, element, amount)
                if key not in self.loaded:
                    name = self.fresh("a")
                    self.line(
                        f"{name} = getelementptr {element}, ptr {pointer}, i64 {amount}"
                    )
                    self.loaded[key] = name
                pointer = str(self.loaded[key])
        return pointer

    def offset(
        self,
        terms: list[tuple[Expr, int]],
        lines: list[object],
        frame: Frame | None = None,
    ) -> str:
        """The sum of some terms, as instructions appended to `lines`."""
        total = ""
        for atom, coefficient in terms:
            value = self.scalar(atom, lines, frame)
            if coefficient != 1:
                name = self.fresh("m")
                lines.append(f"  {name} = mul nsw i64 {value}, {coefficient}")
                value = name
            if total:
                name = self.fresh("s")
                lines.append(f"  {name} = add nsw i64 {total}, {value}")
                value = name
            total = value
        return total

    def scalar(self, atom: Expr, lines: list[object], frame: Frame | None) -> str:
        """An index atom as an instruction sequence in `lines`."""
        if isinstance(atom, Var):
            return self.variables[atom.name]
        if frame is None:
            return self.expr(atom).name
        if atom not in frame.indices:
            saved, self.lines = self.lines, lines
            cached, self.loaded = self.loaded, {}
            frame.indices[atom] = self.expr(atom).name
            self.lines, self.loaded = saved, cached
        return frame.indices[atom]


def _flat(lines: list[object]) -> Iterable[str]:
    for line in lines:
        if isinstance(line, list):
            yield from _flat(line)
        else:
            yield str(line)


def _free_variables(loop: For) -> set[str]:
    """The variables of the loops around that the body uses."""
    used: set[str] = set()
    bound = {loop.var.name}
    seen: set[int] = set()  # ids of what copies share; the loop keeps it alive
    for child in statements(loop.body):
        if isinstance(child, For):
            bound.add(child.var.name)
        stack = list(expressions(child))
        while stack:
            node = stack.pop()
            if isinstance(node, Var):
                used.add(node.name)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.extend(children(node))
    return used - bound
