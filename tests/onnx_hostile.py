"""ONNX files made to do harm, or just wrong: each must end in a ModelError.

A row is a function that writes its file into a folder and returns what `from_onnx` is
given, and a part of the message that is expected.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

from onnx_hostile_nodes import FUNCTIONS, NODES

Maker = Callable[[Path], Any]

# -- texts -----------------------------------------------------------------------------

HEADER = '<ir_version: 10, opset_import: ["": {opset}, "f": 1]>'


def text(body: str, takes: str = "float[2,3] x", opset: int = 21) -> Maker:
    """A model of nodes in ONNX's own notation whose result is y."""
    whole = f"{HEADER.format(opset=opset)} g ({takes}) => (y) {{ {body} }}"
    return lambda folder: parser.parse_model(whole).SerializeToString()


def function(definitions: str) -> Maker:
    whole = f"{HEADER.format(opset=21)} g (float[2,3] x) => (y) {{ y = f.a(x) }}"
    return lambda folder: parser.parse_model(
        f"{whole} {definitions}"
    ).SerializeToString()


# -- bytes -----------------------------------------------------------------------------


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes | int) -> bytes:
    """A field with a length, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def model(graph: bytes, ir: int = 10, opset: int | None = 21) -> bytes:
    versions = b"" if opset is None else field(8, field(2, opset))
    return field(1, ir) + versions + field(7, graph)


def node(op: bytes, takes: Iterable[bytes], gives: Iterable[bytes], rest=b"") -> bytes:
    parts = [field(1, x) for x in takes] + [field(2, x) for x in gives]
    return field(1, b"".join(parts) + field(4, op) + rest)


FLOATS = field(1, field(1, 1) + field(2, field(1, field(1, 2))))  # float[2]
UNKNOWN = field(1, field(1, 99))
INPUT = field(11, field(1, b"x") + field(2, FLOATS))
OUTPUT = field(12, field(1, b"y"))
RELU = node(b"Relu", [b"x"], [b"y"])


def nested(depth: int) -> bytes:
    """Graphs inside each other, in branches that are taken."""
    graph = node(b"Relu", [b"x"], [b"y"]) + OUTPUT
    for _ in range(depth):
        branch = field(5, field(1, b"then_branch") + field(20, 5) + field(6, graph))
        graph = node(b"If", [b"c"], [b"y"], branch) + OUTPUT
    return graph


def sequences(depth: int) -> bytes:
    """Sequences of sequences."""
    found = b""
    for _ in range(depth):
        found = field(4, field(1, found))
    return found


def initializer(content: bytes) -> bytes:
    """A model that adds a tensor, which has the name w."""
    add = node(b"Add", [b"x", b"w"], [b"y"])
    return model(add + field(5, content + field(8, b"w")) + INPUT + OUTPUT)


def tensor(code: int, dims: Iterable[int], rest: bytes) -> bytes:
    return b"".join(field(1, n) for n in dims) + field(2, code) + rest


def sparse(dims: Iterable[int], indices: list[int]) -> bytes:
    values = tensor(1, [len(indices)], field(4, bytes(4 * len(indices))))
    places = tensor(7, [len(indices)], field(7, b"".join(map(varint, indices))))
    whole = field(1, values + field(8, b"w")) + field(2, places)
    whole += b"".join(field(3, n) for n in dims)
    add = node(b"Add", [b"x", b"w"], [b"y"])
    return model(add + field(15, whole) + INPUT + OUTPUT)


GOOD = model(RELU + INPUT + OUTPUT)
BYTES: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "no graph"),
    "noise": (bytes(range(256)) * 4, ""),
    "JSON": (b'{"graph": {"node": []}}', ""),
    "picture": (b"\x89PNG\r\n\x1a\n" + bytes(64), ""),
    "cut": (GOOD[:-3], "ends behind"),
    "one byte": (b"\x0a", ""),
    "no graph": (field(1, 10) + field(8, field(2, 21)), "no graph"),
    "two graphs": (GOOD + field(7, RELU), "two of 'graph'"),
    "graph is a number": (field(1, 10) + field(8, field(2, 21)) + field(7, 5), "wire"),
    "IR version 0": (model(RELU + INPUT + OUTPUT, ir=0), "IR version"),
    "IR version 99": (model(RELU + INPUT + OUTPUT, ir=99), "IR version"),
    "IR version -1": (model(RELU + INPUT + OUTPUT, ir=(1 << 64) - 1), "IR version"),
    "no opset": (model(RELU + INPUT + OUTPUT, opset=None), "opset"),
    "opset 99": (model(RELU + INPUT + OUTPUT, opset=99), "opset 99"),
    "opset 0": (model(RELU + INPUT + OUTPUT, opset=0), "opset 0"),
    "no outputs": (model(RELU + INPUT), "no output"),
    "output without name": (model(RELU + INPUT + field(12, b"")), "output"),
    "input without type": (model(RELU + field(11, field(1, b"x")) + OUTPUT), "tensor"),
    "input twice": (model(RELU + INPUT + INPUT + OUTPUT), "two have this name"),
    "input of type 99": (
        model(RELU + field(11, field(1, b"x") + field(2, UNKNOWN)) + OUTPUT),
        "element type 99"),
    "long name": (model(node(b"R" * (1 << 20), [b"x"], [b"y"]) + INPUT + OUTPUT),
                  "a text of"),
    "name is no text": (model(node(b"\xff\xfe", [b"x"], [b"y"]) + INPUT + OUTPUT),
                        "UTF-8"),
    "number without end": (b"\x08" + b"\xff" * 64, "does not end"),
    "length without end": (b"\x3a" + b"\xff" * 9 + b"\x7f", ""),
    "length over all": (b"\x3a\xff\xff\xff\xff\x0f", "ends behind"),
    "group": (b"\x3b\x3c", "wire type 3"),
    "wire type 7": (b"\x3f\x00", "wire type 7"),
    "field 0": (b"\x02\x00" + GOOD[:8], ""),
    "a million nodes": (model(field(1, b"") * 1_000_000 + INPUT + OUTPUT), "50,000"),
    "two million fields": (field(14, b"") * 2_000_000 + GOOD, "fields"),
    "a million attributes": (
        model(node(b"Relu", [b"x"], [b"y"], field(5, b"") * 600_000) + INPUT + OUTPUT),
        "attributes"),
    "a million inputs": (
        model(node(b"Sum", [b"x"] * 600_000, [b"y"]) + INPUT + OUTPUT), "inputs"),
    "graphs 12 deep": (model(nested(12) + INPUT), "before it is made"),
    "graphs 500 deep": (model(nested(500) + INPUT), "deeper"),
    "graphs 3,000 deep": (model(nested(3000) + INPUT), "deeper"),
    "types 3,000 deep": (
        model(RELU + OUTPUT + field(11, field(1, b"x") + field(2, sequences(3000)))),
        "tensor"),
    "attribute twice": (
        model(node(b"Relu", [b"x"], [b"y"], 2 * field(5, field(1, b"a") + field(20, 2)))
              + INPUT + OUTPUT), "twice"),
    "attribute of type 77": (
        model(node(b"Relu", [b"x"], [b"y"], field(5, field(1, b"a") + field(20, 77)))
              + INPUT + OUTPUT), "77"),
    "attribute without its graph": (
        model(node(b"If", [b"x"], [b"y"],
                   field(5, field(1, b"then_branch") + field(20, 5)))
              + INPUT + OUTPUT), "has none"),
    "negative dimension": (initializer(tensor(1, [(1 << 64) - 4], field(9, bytes(16)))),
                           "dimension of -4"),
    "overflowing dimensions": (
        initializer(tensor(1, [1 << 62, 4, 4], field(9, bytes(16)))), "bytes"),
    "dimensions of 4 TiB": (initializer(tensor(1, [1 << 40], field(9, bytes(16)))),
                            "bytes"),
    "a hundred axes": (initializer(tensor(1, [1] * 100, field(9, bytes(4)))), "axes"),
    "too few bytes": (initializer(tensor(1, [2], field(9, bytes(4)))), "elements"),
    "odd bytes": (initializer(tensor(1, [2], field(9, bytes(7)))), "bytes"),
    "too few floats": (initializer(tensor(1, [2], field(4, bytes(4)))), "elements"),
    "odd floats": (initializer(tensor(1, [2], field(4, bytes(7)))), "bytes"),
    "no data": (initializer(tensor(1, [2], b"")), "elements"),
    "type 99": (initializer(tensor(99, [2], field(9, bytes(8)))), "element type 99"),
    "type 0": (initializer(tensor(0, [2], field(9, bytes(8)))), "element type 0"),
    "text elements": (initializer(tensor(8, [1], field(6, b"hello"))), "string"),
    "segment": (initializer(tensor(1, [2], field(3, b"") + field(9, bytes(8)))),
                "segment"),
    "integers without end": (initializer(tensor(7, [2], field(7, b"\xff" * 20))),
                             "does not end"),
    "data location 9": (initializer(tensor(1, [2], field(14, 9))), "location 9"),
    "initializer twice": (
        model(RELU + 2 * field(5, tensor(1, [1], field(9, bytes(4))) + field(8, b"w"))
              + INPUT + OUTPUT), "two initializers"),
    "sparse, index outside": (sparse([2], [7]), "indices"),
    "sparse, negative index": (sparse([2], [(1 << 64) - 1]), ""),
    "sparse, huge": (sparse([1 << 40], [0]), "larger"),
    "sparse without parts": (
        model(RELU + field(15, b"") + field(15, b"") + INPUT + OUTPUT), ""),
}  # fmt: skip


# -- external data ---------------------------------------------------------------------


def external(folder: Path, **entries: str) -> Path:
    """A model in a folder of its own whose weight lies elsewhere; a secret lies beside
    that folder."""
    inside = folder / "model"
    inside.mkdir(exist_ok=True)
    (folder / "secret").write_bytes(bytes(64))
    (inside / "data").write_bytes(bytes(64))
    made = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    made.ClearField("raw_data")
    made.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
        [made],
    )
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    path = inside / "model.onnx"
    path.write_bytes(whole.SerializeToString())
    return path


def linked(folder: Path, target: str) -> Path:
    """External data at "link", a symbolic link."""
    path = external(folder, location="link")
    (path.parent / "link").symlink_to(target)
    return path


def through_folder(folder: Path) -> Path:
    path = external(folder, location="sub/secret")
    (path.parent / "sub").symlink_to("..")
    return path


def pipe(folder: Path) -> Path:
    path = external(folder, location="pipe")
    os.mkfifo(path.parent / "pipe")
    return path


def loop_of_links(folder: Path) -> Path:
    path = linked(folder, "other")
    (path.parent / "other").symlink_to("link")
    return path


EXTERNAL: dict[str, tuple[Maker, str]] = {
    "absolute": (lambda f: external(f, location=str(f / "secret")), "inside"),
    "system file": (lambda f: external(f, location="/etc/passwd"), "inside"),
    "traversal": (lambda f: external(f, location="../secret"), "inside"),
    "traversal later": (lambda f: external(f, location="a/../../secret"), "inside"),
    "backslashes": (lambda f: external(f, location="..\\secret"), "inside"),
    "link out": (lambda f: linked(f, "../secret"), "links out"),
    "absolute link": (lambda f: linked(f, "/etc/passwd"), "links out"),
    "link through a folder": (through_folder, "links out"),
    "loop of links": (loop_of_links, ""),
    "pipe": (pipe, "regular"),
    "device": (lambda f: linked(f, "/dev/zero"), "links out"),
    "folder": (lambda f: external(f, location="."), "regular"),
    "missing": (lambda f: external(f, location="nowhere"), "No such file"),
    "no location": (external, "no path"),
    "empty location": (lambda f: external(f, location=""), "no path"),
    "zero byte": (lambda f: external(f, location="da\0ta"), "no path"),
    "long location": (lambda f: external(f, location="a" * 5000), "no path"),
    "offset behind": (lambda f: external(f, location="data", offset="60"), "behind"),
    "huge offset": (lambda f: external(f, location="data", offset="9" * 30), "number"),
    "negative offset": (lambda f: external(f, location="data", offset="-4"), "number"),
    "no number": (lambda f: external(f, location="data", offset="0x4"), "number"),
    "length": (lambda f: external(f, location="data", length="99"), "99 bytes"),
    "bytes only": (
        lambda f: external(f, location="data").read_bytes(), "not given as a path"),
    "proto only": (
        lambda f: onnx.load(external(f, location="data"), load_external_data=False),
        "not given as a path"),
}  # fmt: skip

# -- places ----------------------------------------------------------------------------


def special(kind: str) -> Maker:
    def make(folder: Path) -> Any:
        path = folder / "m.onnx"
        if kind == "pipe":
            os.mkfifo(path)
        if kind == "folder":
            path.mkdir()
        if kind == "empty":
            path.write_bytes(b"")
        if kind == "device":
            return Path("/dev/zero")
        if kind == "object":
            return 42
        return path

    return make


PLACES: dict[str, tuple[Maker, str]] = {
    "pipe": (special("pipe"), "regular"),
    "folder": (special("folder"), "regular"),
    "empty": (special("empty"), "empty"),
    "device": (special("device"), "regular"),
    "missing": (special("missing"), "No such file"),
    "object": (special("object"), "no model"),
}


def bomb(folder: Path) -> bytes:
    """Constants that would be folded for hours, or into gigabytes."""
    steps = ["s = Constant<value_ints=[4096,4096]>()", "a0 = ConstantOfShape(s)"]
    steps += [f"a{n + 1} = MatMul(a{n}, a{n})" for n in range(60)]
    body = " ".join([*steps, "b = ReduceSum<keepdims=0>(a60)", "y = Frobnicate(b)"])
    maker: Callable[[Path], bytes] = text(body, "")
    return maker(folder)


def wide_bomb(folder: Path) -> bytes:
    steps = ["s = Constant<value_ints=[60000000]>()", "a = ConstantOfShape(s)"]
    steps += [f"b{n} = Exp(a) c{n} = ReduceSum<keepdims=0>(b{n})" for n in range(40)]
    total = ", ".join(f"c{n}" for n in range(40))
    maker: Callable[[Path], bytes] = text(
        " ".join([*steps, f"d = Sum({total})", "y = Frobnicate(d)"]), ""
    )
    return maker(folder)


def _fixed(data: bytes) -> Maker:
    return lambda folder: data


CRAFTED: dict[str, tuple[Maker, str]] = {
    **{f"node: {k}": (text(a, b), m) for k, (a, b, m) in NODES.items()},
    **{f"function: {k}": (function(a), m) for k, (a, m) in FUNCTIONS.items()},
    **{f"bytes: {k}": (_fixed(a), m) for k, (a, m) in BYTES.items()},
    **{f"external: {k}": row for k, row in EXTERNAL.items()},
    **{f"place: {k}": row for k, row in PLACES.items()},
    "fold: products": (bomb, "Frobnicate"),
    "fold: sums": (wide_bomb, "Frobnicate"),
}
