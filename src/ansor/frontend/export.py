"""Models for programs without Python.

    lib<name>.a     objects: the driver, the kernels, the thread pool, the weights
    lib<name>.so    the same as a shared library, where a linker is found
    <name>.h        C declarations
    <name>.json     the manifest: types, target, schedules, versions, checksums
    main.c          an example that reads inputs from files and writes outputs

Weights are read-only data of the library, in the layout that the kernels want; pages
of them are loaded when they are first read, and shared between processes. Nothing is
needed at run time but libc, libm and libpthread. The same model gives the same files.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from ansor.codegen import engine, runtime
from ansor.codegen.elf import Member, archive, data_object
from ansor.codegen.export import KEYWORDS
from ansor.errors import ArgumentError, CodegenError
from ansor.frontend.driver import Call, driver_text
from ansor.frontend.executor import Executable
from ansor.frontend.interface import example, header, manifest
from ansor.frontend.memory import ALIGNMENT, Home, Place

COMPILERS = ("cc", "gcc", "clang")
LINKERS = ("ld", "ld.lld", "ld.gold")
LINK_SECONDS = 300.0


@dataclass(frozen=True)
class Exported:
    """What was written, and what a person should know of it."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def export(
    exe: Executable, directory: str | PathLike[str], name: str | None = None
) -> Exported:
    """Write a compiled model into a directory, which is made if needed.

    `name` begins the names of files and functions; the model's own, unless given.
    """
    name = library_name(exe.name, name)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / f"lib{name}.a"
    library.write_bytes(archive(_members(exe, name)))
    shared, notes = _share(folder, name)
    (folder / f"{name}.h").write_text(header(exe, name), encoding="utf-8")
    (folder / "main.c").write_text(example(exe, name), encoding="utf-8")
    files = [library, *([shared] if shared else []), folder / f"{name}.h"]
    sums = {x.name: hashlib.sha256(x.read_bytes()).hexdigest() for x in files}
    facts = folder / f"{name}.json"
    facts.write_text(manifest(exe, name, sums), encoding="utf-8")
    return Exported((*files, facts, folder / "main.c"), tuple(notes))


def library_name(model: str, name: str | None = None) -> str:
    """What names of files and functions begin with: `name`, if it is one in C, else
    what resembles that of the model."""
    return _checked(c_name(model) if name is None else name)


def c_name(text: str) -> str:
    """A name in C that resembles a text."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
    plain = plain.strip("_") or "model"
    return plain if plain[0].isalpha() and plain not in KEYWORDS else f"model_{plain}"


def _checked(name: str) -> str:
    is_name = name.isidentifier() and name.isascii() and name not in KEYWORDS
    if not is_name or f"{name}_run" in runtime.ENTRIES:
        raise ArgumentError(
            f"export as {name!r}", "not a name in C", "use letters, digits and _"
        )
    return name


# -- the library -----------------------------------------------------------------------


def _members(exe: Executable, name: str) -> list[Member]:
    """The objects. One that several models have is the same in all of them."""
    weights, places = _weights(exe, f"{name}_weights")
    driver = _driver(exe, name, places)
    units = {step.unit.symbol: step.unit.made for step in exe.steps}
    members = [Member(f"{name}.o", driver.code, driver.exports)]
    members += [Member(f"{x}.o", made.code, made.exports) for x, made in units.items()]
    runtime_code = engine.runtime_code(exe.target)
    members.append(Member("ansor_runtime.o", runtime_code, tuple(runtime.ENTRIES)))
    if places:
        code = data_object(f"{name}_weights", weights, exe.target.arch)
        members.append(Member(f"{name}_weights.o", code, (f"{name}_weights",)))
    return members


def _weights(exe: Executable, symbol: str) -> tuple[bytes, dict[str, Place]]:
    """All constants as one block, each aligned, and where they are in it."""
    parts: list[bytes] = []
    places: dict[str, Place] = {}
    seen: dict[int, Place] = {}  # arrays may have several names
    at = 0
    for name, array in exe.constants.items():
        if id(array) in seen:
            places[name] = seen[id(array)]
            continue
        data = array.tobytes()
        data += bytes(-len(data) % ALIGNMENT)
        places[name] = seen[id(array)] = Place(Home.CONSTANT, at, symbol)
        parts.append(data)
        at += len(data)
    return b"".join(parts), places


def _driver(exe: Executable, name: str, places: dict[str, Place]) -> engine.Object:
    """The driver with constants at offsets from one symbol."""

    def moved(place: Place) -> Place:
        return places[place.name] if place.home is Home.CONSTANT else place

    calls = [
        Call(step.call.symbol, tuple(map(moved, step.call.arguments)))
        for step in exe.steps
    ]
    copies = [replace(copy, source=moved(copy.source)) for copy in exe.copies]
    text = driver_text(f"{name}_run", calls, copies, exe.memory.arena)
    text += f"""
define i64 @"{name}_workspace_size"() nounwind {{
  ret i64 {exe.memory.arena}
}}
"""
    kernels = [call.symbol for call in calls]
    return engine.compile_object(text, exe.target, kernels)


def _share(folder: Path, name: str) -> tuple[Path | None, list[str]]:
    """The shared library, if there is a linker; else a note that says so."""
    command = _linker()
    if command is None:
        tools = ", ".join((*COMPILERS, *LINKERS))
        return None, [f"no shared library: none of {tools} is on the path"]
    target = folder / f"lib{name}.so"
    with TemporaryDirectory(prefix="ansor-") as temporary:
        script = Path(temporary) / "symbols"
        public = (f"{name}_run", f"{name}_workspace_size", "ansor_set_threads",
                  "ansor_get_threads")  # fmt: skip
        script.write_text(f"{{ global: {'; '.join(public)}; local: *; }};\n")
        arguments = [
            f"--version-script={script}", f"-soname=lib{name}.so", "--build-id=none",
            "-z", "noexecstack", "--whole-archive", str(folder / f"lib{name}.a"),
            "--no-whole-archive",
        ]  # fmt: skip
        _call(command, arguments, target)
    return target, []


def _linker() -> tuple[str, bool] | None:
    """A program that links, and whether it is a compiler, too."""
    for name in (*COMPILERS, *LINKERS):
        found = shutil.which(name)
        if found is not None:
            return found, name in COMPILERS
    return None


def _call(command: tuple[str, bool], arguments: Sequence[str], target: Path) -> None:
    program, is_compiler = command
    if is_compiler:
        passed = [x for argument in arguments for x in ("-Xlinker", argument)]
        passed += ["-lpthread", "-lm"]
    else:
        passed = list(arguments)
    done = subprocess.run(
        [program, "-shared", "-o", str(target), *passed],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LINK_SECONDS,
        check=False,
    )
    if done.returncode:
        raise CodegenError(
            f"shared library {target.name!r}",
            f"{Path(program).name} failed: {done.stderr.strip()[-500:]}",
        )
