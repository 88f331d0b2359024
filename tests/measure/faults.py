"""Kernels that misbehave, as LLVM text, and how their outcomes are to be named.

All of them have the signature of `task()`: one input, one output.
"""

import platform
from dataclasses import dataclass

import ansor
from ansor.codegen.kernel import Build

SIZE = 1000
ILLEGAL = {"x86_64": 0x0B0F, "aarch64": 0}  # ud2, udf


def task() -> ansor.Task:
    """B = A + 1."""
    a = ansor.placeholder((SIZE,), name="A")
    return ansor.Task(ansor.compute((SIZE,), lambda i: a[i] + 1.0, name="B"))


@dataclass(frozen=True)
class Fault:
    """What goes wrong, and the outcome: its stage and cause, or None if it is timed."""

    name: str
    body: str
    outcome: tuple[str, str] | None
    more: str = ""  # declarations
    works: bool = False  # it computes the result, besides

    def candidate(self) -> Build:
        made = task()
        loop = _LOOP if self.works else ""
        text = f"""
{self.more}
define void @B(ptr %a, ptr %b) {{
entry:
{self.body}
{loop}
}}
"""
        return Build("B", text, made.target, made.dag.arguments)


_LOOP = f"""
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %q = getelementptr float, ptr %b, i64 %i
  %x = load float, ptr %p
  %y = fadd float %x, 1.0
  store float %y, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {SIZE}
  br i1 %more, label %loop, label %exit
exit:
  ret void
"""

_ILLEGAL = ILLEGAL[platform.machine()]

FAULTS = (
    Fault(
        "segfault", "  store volatile i32 1, ptr null\n  ret void", ("check", "crash")
    ),
    Fault(
        "illegal instruction",
        f"""
  %p = call ptr @mmap(ptr null, i64 4096, i32 7, i32 34, i32 -1, i64 0)
  store i32 {_ILLEGAL}, ptr %p
  call void %p()
  ret void
""",
        ("check", "crash"),
        "declare ptr @mmap(ptr, i64, i32, i32, i32, i64)",
    ),
    Fault(
        "abort",
        "  call void @abort()\n  ret void",
        ("check", "crash"),
        "declare void @abort()",
    ),
    Fault(
        "exit",
        "  call void @exit(i32 0)\n  ret void",
        ("check", "exit"),
        "declare void @exit(i32)",
    ),
    Fault(
        "infinite loop",
        "  br label %forever\nforever:\n  store volatile i32 1, ptr %b\n"
        "  br label %forever",
        ("check", "timeout"),
    ),
    Fault(
        "stack overflow",
        "  call void @deep(i64 0)\n  ret void",
        ("check", "crash"),
        """
define i64 @deep(i64 %n) noinline {
  %room = alloca [4096 x i8]
  store volatile i64 %n, ptr %room
  %next = add i64 %n, 1
  %more = call i64 @deep(i64 %next)
  %back = load volatile i64, ptr %room
  %sum = add i64 %back, %more
  ret i64 %sum
}
""",
    ),
    Fault(
        "4 GiB",
        "  %p = call ptr @malloc(i64 4294967296)\n"
        "  call ptr @memset(ptr %p, i32 1, i64 4294967296)\n  ret void",
        ("check", "memory"),
        "declare ptr @malloc(i64)\ndeclare ptr @memset(ptr, i32, i64)",
    ),
    Fault(
        "closed descriptors",
        """
  br label %each
each:
  %fd = phi i32 [ 0, %entry ], [ %following, %each ]
  call i32 @close(i32 %fd)
  %following = add i32 %fd, 1
  %again = icmp ult i32 %following, 256
  br i1 %again, label %each, label %end
end:
  ret void
""",
        ("check", "silent"),
        "declare i32 @close(i32)",
    ),
    Fault(
        "100 MB of output",
        """
  call void @shout()
""",
        None,
        """
@done = internal global i32 0
@text = internal global [1048576 x i8] zeroinitializer
declare i64 @write(i32, ptr, i64)
define void @shout() noinline {
entry:
  %seen = load i32, ptr @done
  %first = icmp eq i32 %seen, 0
  br i1 %first, label %each, label %end
each:
  %n = phi i32 [ 0, %entry ], [ %next, %each ]
  call i64 @write(i32 1, ptr @text, i64 1048576)
  call i64 @write(i32 2, ptr @text, i64 1048576)
  %next = add i32 %n, 1
  %more = icmp ult i32 %next, 100
  br i1 %more, label %each, label %last
last:
  store i32 1, ptr @done
  br label %end
end:
  ret void
}
""",
        works=True,
    ),
)

WRONG = Fault("does nothing", "  ret void", ("check", "wrong"))
