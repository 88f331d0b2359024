"""Loops found in hand-written assembly, of both architectures."""

import pytest

from ansor.codegen import asm


def headers(text):
    return [loop.label for loop in asm.loops(text, "f")]


COLD_ATT = """
f:                                      # @f
# %bb.0:                                # %entry
	xorl	%eax, %eax
	jmp	.LBB0_2
.LBB0_1:                                # %latch
	vmovups	%zmm0, (%rdx)
	incq	%rax
	cmpq	$8, %rax
	jge	.LBB0_4
.LBB0_2:                                # %loop
	vfmadd231ps	(%rsi), %zmm1, %zmm0
	testq	%rax, %rcx
	je	.LBB0_1
# %bb.3:                                # %then
	vaddps	%zmm2, %zmm0, %zmm0
	jmp	.LBB0_5
.LBB0_4:                                # %done
	vmovups	%zmm3, 64(%rsp)                 # 64-byte Spill
	vzeroupper
	retq
.LBB0_5:                                # %rare
	vmovups	%zmm0, 128(%rsp)                # 64-byte Spill
	vmovups	(%rsp), %zmm2                   # 64-byte Reload
	jmp	.LBB0_1
.Lfunc_end0:
	.size	f, .Lfunc_end0-f
"""

COLD_NEON = """
f:                                      // @f
// %bb.0:                               // %entry
	mov	x8, xzr
	.p2align	5, , 16
.LBB0_1:                                // %loop
                                        // =>This Inner Loop Header: Depth=1
	ldr	q1, [x1]
	fmla	v0.4s, v1.4s, v2.s[0]
	tbnz	w8, #3, .LBB0_3
.LBB0_2:                                // %latch
	add	x8, x8, #1
	cmp	x8, #64
	b.lt	.LBB0_1
	b	.LBB0_4
.LBB0_3:                                // %rare
	str	q0, [sp, #16]                   // 16-byte Spill
	ldp	q2, q3, [sp, #32]               // 32-byte Folded Reload
	b	.LBB0_2
.LBB0_4:                                // %done
	str	q0, [sp, #48]                   // 16-byte Spill
	ret
.Lfunc_end0:
"""


def test_blocks_out_of_line_belong_to_their_loop():
    assert asm.loops(COLD_ATT, "f") == [
        asm.Loop(".LBB0_2", 12, 1, spills=1, reloads=1, broadcasts=0, loads=1, stores=1)
    ]
    assert asm.loops(COLD_NEON, "f") == [
        asm.Loop(".LBB0_1", 9, 1, spills=1, reloads=1, broadcasts=1, loads=1, stores=0)
    ]
    assert asm.spills(COLD_ATT, "f") == asm.spills(COLD_NEON, "f") == 2


NESTED_ATT = """
f:
.LBB0_1:
	vmovups	%ymm0, 32(%rsp)
.LBB0_2:
	vmovups	(%rsi), %ymm1
	decq	%rax
	jne	.LBB0_2
	vmovups	32(%rsp), %ymm0
	decq	%rcx
	jne	.LBB0_1
	retq
"""

NESTED_NEON = """
f:
	b	.LBB0_2
.LBB0_1:
	ldr	q0, [sp, #16]
	subs	x1, x1, #1
	b.eq	.LBB0_4
.LBB0_2:
	str	q0, [sp, #16]
.LBB0_3:
	ldr	q1, [x2], #16
	subs	x0, x0, #1
	b.ne	.LBB0_3
	b	.LBB0_1
.LBB0_4:
	ret
"""


@pytest.mark.parametrize(
    ("text", "label"), [(NESTED_ATT, ".LBB0_2"), (NESTED_NEON, ".LBB0_3")]
)
def test_spills_of_outer_loops_are_not_counted(text, label):
    (loop,) = asm.loops(text, "f")
    assert (loop.label, loop.instructions, loop.loads) == (label, 3, 1)
    assert asm.spills(text, "f") == 0


ROW_INTEL = """
f:
	xor	eax, eax
.LBB0_1:
	inc	rax
	jne	.LBB0_1
	xor	eax, eax
.LBB0_2:
	add	rax, 2
	cmp	rax, rcx
	jb	.LBB0_2
	ret
"""

ROW_NEON = """
f:
	mov	x0, #8
.LBB0_1:
	sub	x0, x0, #1
	cbnz	x0, .LBB0_1
.LBB0_2:
	add	x0, x0, #1
	cmp	x0, x1
	b.lo	.LBB0_2
	ret
"""


@pytest.mark.parametrize("text", [ROW_INTEL, ROW_NEON])
def test_loops_in_a_row(text):
    found = [(loop.label, loop.instructions) for loop in asm.loops(text, "f")]
    assert found == [(".LBB0_1", 2), (".LBB0_2", 3)]


TWICE_ATT = """
f:
.LBB0_1:
	incq	%rax
	testq	%rax, %rdx
	je	.LBB0_1
	addq	$2, %rax
	cmpq	%rax, %rcx
	jne	.LBB0_1
	retq
"""

TWICE_NEON = """
f:
.LBB0_1:
	add	x0, x0, #1
	tst	x0, x2
	b.eq	.LBB0_1
	add	x0, x0, #2
	cmp	x0, x1
	b.ne	.LBB0_1
	ret
"""


@pytest.mark.parametrize("text", [TWICE_ATT, TWICE_NEON])
def test_two_ways_back_make_one_loop(text):
    (loop,) = asm.loops(text, "f")
    assert (loop.label, loop.instructions) == (".LBB0_1", 6)


BACK_INTEL = """
f:
	xor	eax, eax
.LBB0_1:
	inc	rax
	test	rax, rdx
	jne	.LBB0_3
	cmp	rax, rcx
	jb	.LBB0_1
.LBB0_2:
	mov	rax, rdx
	ret
.LBB0_3:
	vmovups	zmmword ptr [rsp + 64], zmm1
	jmp	.LBB0_2
"""

BACK_NEON = """
f:
	mov	x0, xzr
.LBB0_1:
	add	x0, x0, #1
	cbz	x2, .LBB0_3
	cmp	x0, x1
	b.lo	.LBB0_1
.LBB0_2:
	mov	x0, x2
	ret
.LBB0_3:
	str	q0, [sp, #16]
	b	.LBB0_2
"""


@pytest.mark.parametrize(("text", "length"), [(BACK_INTEL, 5), (BACK_NEON, 4)])
def test_a_branch_back_is_not_yet_a_loop(text, length):
    (loop,) = asm.loops(text, "f")
    assert (loop.label, loop.instructions) == (".LBB0_1", length)
    assert asm.spills(text, "f") == 0


def test_a_branch_into_the_middle_makes_no_loop():
    text = "f:\n\tjne\t.L2\n.L1:\n\tincq\t%rax\n.L2:\n\tjne\t.L1\n\tretq\n"
    assert headers(text) == []


TABLE_ATT = """
f:
.LBB0_1:
	incq	%rax
	jmpq	*.LJTI0_0(,%rax,8)
.LBB0_2:
	cmpq	%rax, %rcx
	jne	.LBB0_1
.LBB0_3:
	retq
	.size	f, .-f
	.section	.rodata
.LJTI0_0:
	.quad	.LBB0_2
	.quad	.LBB0_3
"""

TABLE_NEON = """
f:
.LBB0_1:
	ldrb	w9, [x10, x8]
	br	x9
.LBB0_2:
	cbnz	x0, .LBB0_1
.LBB0_3:
	ret
	.size	f, .-f
	.section	.rodata
.LJTI0_0:
	.byte	(.LBB0_2-.LBB0_2)>>2
	.byte	(.LBB0_3-.LBB0_2)>>2
"""


@pytest.mark.parametrize(("text", "length"), [(TABLE_ATT, 4), (TABLE_NEON, 3)])
def test_jumps_through_tables_are_followed(text, length):
    (loop,) = asm.loops(text, "f")
    assert (loop.label, loop.instructions) == (".LBB0_1", length)


def test_lanes_are_not_memory():
    lines = ("mov\tv0.s[1], v1.s[0]", "ld1\t{ v2.s }[1], [x7]", "cbnz\tx0, .LBB0_1")
    (loop,) = asm.loops("f:\n.LBB0_1:\n\t" + "\n\t".join(lines), "f")
    assert (loop.instructions, loop.loads, loop.stores) == (3, 1, 0)


def test_names_in_quotes():
    text = ROW_NEON.replace("f:", '"f.i.0@f.j.0":')
    assert len(asm.loops(text, "f.i.0@f.j.0")) == 2
    assert asm.loops(text, "f") == []


def test_many_blocks_out_of_line():
    """In loops in loops."""
    parts = 1500
    lines = ["f:", ".LBB0_0:", "\tmov\tx1, xzr", ".LBB0_1:"]
    for n in range(parts):
        lines += ["\tldr\tq0, [x0]", "\tadd\tx3, x3, #1", "\tcmp\tx3, #31"]
        lines += [f"\tb.le\t.LBBC_{n}", f".LBBE_{n}:"]
    lines += ["\tcbnz\tx1, .LBB0_1", "\tcbnz\tx2, .LBB0_0", "\tret"]
    for n in range(parts):
        lines += [f".LBBC_{n}:", *["\tfmla\tv0.4s, v1.4s, v2.4s"] * 7]
        lines += [f"\tb\t.LBBE_{n}"]
    (loop,) = asm.loops("\n".join(lines), "f")
    assert len(lines) > 20_000
    assert (loop.label, loop.fmas) == (".LBB0_1", 7 * parts)
