"""Kernels for programs without Python: object code, a C header, a manifest."""

import hashlib
import json
from os import PathLike
from pathlib import Path

from ansor.codegen import engine, llvm, runtime
from ansor.codegen.kernel import Build, Kernel
from ansor.errors import ArgumentError, CodegenError
from ansor.ir.expr import Buffer

VERSION = 1  # of the manifest

C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}

# No names of arguments or functions in a header for C and C++.
KEYWORDS = frozenset(
    (
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor",
        "bool", "break", "case", "catch", "char", "class", "compl", "concept",
        "const", "consteval", "constexpr", "constinit", "const_cast", "continue",
        "co_await", "co_return", "co_yield", "decltype", "default", "delete", "do",
        "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern",
        "false", "float", "for", "friend", "goto", "if", "inline", "int", "long",
        "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
        "operator", "or", "or_eq", "private", "protected", "public", "register",
        "reinterpret_cast", "requires", "restrict", "return", "short", "signed",
        "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
        "template", "this", "thread_local", "throw", "true", "try", "typedef",
        "typeid", "typename", "typeof", "union", "unsigned", "using", "virtual",
        "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
    )
)  # fmt: skip


def export(kernel: Kernel, directory: str | PathLike[str]) -> None:
    """Write `<name>.o`, `<name>.h` and `<name>.json`; the directory is made if needed.

    The object needs libc and libpthread only; objects of several kernels link together
    and share one thread pool. The same kernel gives the same bytes.
    """
    if kernel.bound:
        raise ArgumentError(
            f"export of kernel {kernel.name!r}",
            f"inputs are bound: {', '.join(kernel.bound)}",
            "export the kernel that was bound; the caller passes all inputs",
        )
    build = kernel.build
    _check_name(build)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    code = engine.object_code(build.text, build.target)
    (folder / f"{build.name}.o").write_bytes(code)
    (folder / f"{build.name}.h").write_text(header(build), encoding="utf-8")
    (folder / f"{build.name}.json").write_text(manifest(build, code), encoding="utf-8")


def _check_name(build: Build) -> None:
    what, name = f"export of {build.name!r}", build.name
    if not name.isidentifier() or not name.isascii() or name in KEYWORDS:
        raise CodegenError(what, "not a name in C")
    if f"@{name}(" in runtime.text(build.target.arch):
        raise CodegenError(
            what,
            "the runtime that is linked to it calls another function of this name",
            "give the first output another name",
        )


def header(build: Build) -> str:
    """C99 declarations of the functions of a kernel."""
    guard = f"ANSOR_{build.name.upper()}_H"
    functions = "\n".join((*_prepare_functions(build), _kernel_function(build)))
    return f"""#ifndef {guard}
#define {guard}

/* Made by ansor for {build.target.cpu} ({build.target.triple}).
   Arrays are dense, row-major, and aligned to their elements; outputs overlap nothing.
   Link with -lpthread. float16 and bfloat16 are passed as their bits. */

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

{functions}{_runtime_functions(build)}
#ifdef __cplusplus
}}
#endif

#endif
"""


def _kernel_function(build: Build) -> str:
    packed = {row.name: row.packed for row in build.prepared}
    taken = [packed.get(buffer.name, buffer) for buffer in build.inputs]
    lines = [_describe(buffer, "in, packed" if buffer.name in packed else "in")
             for buffer in build.inputs]  # fmt: skip
    lines += [_describe(buffer, "out") for buffer in build.results]
    arguments = [
        _argument(b, b0.name, True) for b, b0 in zip(taken, build.inputs, strict=True)
    ]
    arguments += [_argument(b, b.name, False) for b in build.results]
    return _function(build.name, lines, arguments)


def _prepare_functions(build: Build) -> list[str]:
    by_name = {buffer.name: buffer for buffer in build.inputs}
    return [
        _function(
            row.entry,
            [
                _describe(by_name[row.name], "in"),
                f"packed: {row.packed.bytes} bytes, aligned to 64, out",
            ],
            [
                _argument(by_name[row.name], row.name, True),
                _argument(row.packed, "packed", False),
            ],
        )
        for row in build.prepared
    ]


def _function(name: str, lines: list[str], arguments: list[str]) -> str:
    comment = "\n".join(f"   {line}" for line in lines).strip()
    return f"/* {comment} */\nvoid {name}({', '.join(arguments)});\n"


def _runtime_functions(build: Build) -> str:
    if "@ansor_parallel_for" not in build.text:
        return ""
    return (
        "\n/* Threads that parallel loops may use; all CPUs unless set. */\n"
        "void ansor_set_threads(int32_t threads);\n"
        "int32_t ansor_get_threads(void);\n"
    )


def _describe(buffer: Buffer, role: str) -> str:
    shape = "".join(f"[{extent}]" for extent in buffer.shape)
    return f"{_c_name(buffer.name)}: {buffer.dtype}{shape}, {role}"


def _argument(buffer: Buffer, name: str, is_input: bool) -> str:
    const = "const " if is_input else ""
    return f"{const}{C_TYPES[buffer.dtype]} *{_c_name(name)}"


def _c_name(name: str) -> str:
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"{plain}_" if plain in KEYWORDS else plain


def manifest(build: Build, code: bytes) -> str:
    """Facts about an exported kernel, as JSON."""
    facts = {
        "version": VERSION,
        "name": build.name,
        "target": {
            "triple": build.target.triple,
            "cpu": build.target.cpu,
            "features": build.target.features,
        },
        "inputs": [_facts(buffer) for buffer in build.inputs],
        "outputs": [_facts(buffer) for buffer in build.results],
        "prepared": [
            {"input": row.name, "function": row.entry, "packed": _facts(row.packed)}
            for row in build.prepared
        ],
        "llvm": llvm.version(),
        "sha256": hashlib.sha256(code).hexdigest(),
    }
    return json.dumps(facts, indent=2) + "\n"


def _facts(buffer: Buffer) -> dict[str, object]:
    return {"name": buffer.name, "dtype": buffer.dtype, "shape": list(buffer.shape)}
