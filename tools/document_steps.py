"""Write docs/schedule.md from the docstrings of the steps.

    PYTHONPATH=src python tools/document_steps.py

A test fails while the file is not what this script writes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ansor.schedule import STEPS, Follow, Knob, LayoutRewrite
from ansor.schedule.lower import PASSES

PAGE = Path(__file__).parent.parent / "docs" / "schedule.md"

INTRODUCTION = """\
# Schedules

<!-- Written by tools/document_steps.py from the docstrings. Do not edit. -->

A program is a task and a list of steps. A step is a value: it can be printed,
compared, hashed, stored and sent elsewhere. Loops are derived from the steps by
replaying them, so there is nothing else to store. Lengths may be knobs, holes that a
row of integers fills; steps with knobs are a sketch, and a sketch with a row is a
program.

```python
from ansor.schedule import Annotate, Knob, Program, Reorder, Sketch, Split

sketch = Sketch(task).then(
    Split("C", "i", (Knob("rows", (2, 4, 6)),)),
    Split("C", "j", (16,)),
    Reorder("C", ("i.0", "j.0", "k", "i.1", "j.1")),
    Annotate("C", "j.1", "vectorize"),
)
program = sketch.program((4,))
print(program)          # the steps
print(program.lower())  # the loops
kernel = ansor.build(task, program)
```

A loop is called after its axis, and its parts after it: `i` becomes `i.0`, `i.1`, …,
from the outside in; fused loops are called `i@j`. A step that does not apply raises a
`ScheduleError` that says why and what to do instead.
"""

PASSES_TEXT = """\
## From steps to loops

`program.lower(dump=function)` calls `function(pass, loops)` after each of these passes,
and printing `loops` shows what it did:
"""


@dataclass(frozen=True)
class Entry:
    """What the docstring of one step says."""

    name: str
    summary: str
    picture: str  # before ==> after
    call: str  # how it is written
    text: str


def entry(name: str, source: Callable[..., object]) -> Entry:
    """The parts of a docstring: a sentence, a picture, a doctest, the rest."""
    summary, _, rest = inspect.cleandoc(source.__doc__ or "").partition("\n\n")
    picture: list[str] = []
    call: list[str] = []
    text: list[str] = []
    lines = rest.splitlines()
    for at, line in enumerate(lines):
        if line.startswith(">>> "):
            call.append(line.removeprefix(">>> print(").removesuffix(")"))
        elif line.startswith("    "):
            picture.append(line[4:])
        elif not (at and lines[at - 1].startswith(">>> ")):
            text.append(line)
    return Entry(name, summary, "\n".join(picture), " ".join(call), _joined(text))


def _joined(lines: list[str]) -> str:
    """Paragraphs; what a step requires is one of its own."""
    text = "\n".join(lines).strip().replace("\nRequires:", "\n\nRequires:")
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return text


def entries() -> list[Entry]:
    """Every step in the order of the table, then what is built on one."""
    found = [entry(name, step) for name, step in STEPS.items()]
    return [*found, entry("layout-rewrite", LayoutRewrite)]


def section(step: Entry) -> str:
    parts = [f"## {step.name}", step.summary]
    parts.append(f"```\n{step.picture}\n```")
    parts.append(f"```python\n{step.call}\n```")
    if step.text:
        parts.append(step.text)
    return "\n\n".join(parts)


def table(steps: list[Entry]) -> str:
    rows = [f"| [{s.name}](#{s.name}) | `{s.call}` | {s.summary} |" for s in steps]
    return "\n".join(["| Step | Written | Effect |", "|---|---|---|", *rows])


def lengths() -> str:
    """What a length can be, besides an integer."""
    rows = ["## Lengths", "Besides an integer, a length can be:"]
    for kind in (Knob, Follow):
        found = entry(kind.__name__, kind)
        sentence = found.summary[0].lower() + found.summary[1:]
        rows.append(f"- `{found.call}`: {sentence} {found.text}".rstrip())
    return "\n\n".join(rows[:2]) + "\n\n" + "\n".join(rows[2:])


def page() -> str:
    """The text of docs/schedule.md."""
    steps = entries()
    names = "\n".join(f"1. {name}" for name in ("nest", *(name for name, _ in PASSES)))
    parts = [INTRODUCTION.rstrip(), table(steps), *map(section, steps), lengths()]
    return "\n\n".join([*parts, f"{PASSES_TEXT}\n{names}"]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
