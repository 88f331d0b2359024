"""Loop programs as text: one statement a line, two spaces a level."""

from collections.abc import Iterator
from typing import assert_never

from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Stmt, Store


def print_function(function: Function) -> str:
    """The text of a function; `str(function)`."""
    inputs = len(function.parameters) - function.outputs
    names = [str(p).removesuffix(" global") for p in function.parameters]
    taken, given = ", ".join(names[:inputs]), ", ".join(names[inputs:])
    head = f"def {function.name}({taken}) -> {given}:"
    return "\n".join([head, *(f"  {line}" for line in lines(function.body))])


def print_stmt(stmt: Stmt) -> str:
    return "\n".join(lines(stmt))


def lines(stmt: Stmt) -> Iterator[str]:
    """The lines of one statement, without a leading indent."""
    match stmt:
        case For():
            kind = "" if stmt.kind == "serial" else f"  # {stmt.thread or stmt.kind}"
            reduce = (
                "" if not stmt.reduce else ("  # reduce" if not kind else ", reduce")
            )
            yield f"for {stmt.var} in {stmt.extent}:{kind}{reduce}"
            yield from _indented(stmt.body)
        case Store():
            mask = "" if stmt.active is None else f":{stmt.active}"
            indices = ", ".join(map(str, stmt.indices))
            yield f"{stmt.buffer.name}[{indices}]{mask} = {stmt.value}"
        case If():
            yield f"if {stmt.condition}:"
            yield from _indented(stmt.then)
            if stmt.otherwise is not None:
                yield "else:"
                yield from _indented(stmt.otherwise)
        case Seq():
            for child in stmt.stmts:
                yield from lines(child)
        case Allocate():
            yield f"allocate {stmt.buffer}"
            yield from lines(stmt.body)
        case Prefetch():
            yield f"prefetch {stmt.buffer.name}[{', '.join(map(str, stmt.indices))}]"
        case _:
            assert_never(stmt)


def _indented(stmt: Stmt) -> Iterator[str]:
    for line in lines(stmt):
        yield f"  {line}"
