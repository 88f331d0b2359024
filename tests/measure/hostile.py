"""LLVM modules that a builder does not survive, or should not accept."""

import platform

import numpy as np

FOREIGN = {
    "aarch64": "declare <16 x float> @llvm.x86.avx512.rcp14.ps.512"
    "(<16 x float>, <16 x float>, i16)",
    "x86_64": "declare <4 x float> @llvm.aarch64.neon.fmaxnm.v4f32"
    "(<4 x float>, <4 x float>)",
}


def hostile_modules() -> dict[str, str]:
    """Name -> text; every one defines, or pretends to define, `void @B(ptr, ptr)`."""
    kernel = "define void @B(ptr %a, ptr %b) {\n  ret void\n}\n"
    return {
        "no text": "",
        "not LLVM": "int main() { return 0; }",
        "truncated": kernel[:-4],
        "no such function": kernel.replace("@B", "@C"),
        "type error": "define void @B(ptr %a, ptr %b) {\n  ret i32 0\n}",
        "unknown symbol": "declare void @no_such_function()\n"
        "define void @B(ptr %a, ptr %b) {\n  call void @no_such_function()\n"
        "  ret void\n}",
        "use before definition": "define void @B(ptr %a, ptr %b) {\n"
        "  %x = add i32 %y, 1\n  %y = add i32 %x, 1\n  ret void\n}",
        "cannot select": _unselectable(),
        "wide integer division": "define void @B(ptr %a, ptr %b) {\n"
        "  %x = load i16384, ptr %a\n  %y = sdiv i16384 %x, %x\n"
        "  store i16384 %y, ptr %b\n  ret void\n}",
        "endless constants": _many_globals(),
        "huge unrolled body": _long_body(120_000),
    }


def scrambled(text: str, count: int, seed: int) -> list[str]:
    """Versions of a module with lines lost, doubled, swapped, or numbers changed."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        lines = text.splitlines()
        for _ in range(int(rng.integers(1, 6))):
            at, other = rng.integers(len(lines), size=2)
            match int(rng.integers(4)):
                case 0:
                    del lines[at]
                case 1:
                    lines.insert(int(other), lines[at])
                case 2:
                    lines[at], lines[other] = lines[other], lines[at]
                case _:
                    lines[at] = lines[at].replace(str(rng.integers(10)), "2147483647")
        found.append("\n".join(lines))
    return found


def _unselectable() -> str:
    if platform.machine() == "aarch64":
        return (
            f"{FOREIGN['aarch64']}\n"
            "define void @B(ptr %a, ptr %b) {\n"
            "  %x = load <16 x float>, ptr %a\n"
            "  %y = call <16 x float> @llvm.x86.avx512.rcp14.ps.512("
            "<16 x float> %x, <16 x float> %x, i16 -1)\n"
            "  store <16 x float> %y, ptr %b\n  ret void\n}"
        )
    return (
        f"{FOREIGN['x86_64']}\n"
        "define void @B(ptr %a, ptr %b) {\n"
        "  %x = load <4 x float>, ptr %a\n"
        "  %y = call <4 x float> @llvm.aarch64.neon.fmaxnm.v4f32("
        "<4 x float> %x, <4 x float> %x)\n"
        "  store <4 x float> %y, ptr %b\n  ret void\n}"
    )


def _many_globals() -> str:
    """An object of more than a gigabyte."""
    return (
        '@x = global [1500000000 x i8] c"", align 1\n'.replace(
            'c""', "zeroinitializer"
        ).replace("global", "constant")
        + "@y = constant { i8, [1500000000 x i8] } { i8 1, [1500000000 x i8] "
        "zeroinitializer }\n"
        "define void @B(ptr %a, ptr %b) {\n  store ptr @y, ptr %b\n  ret void\n}"
    )


def _long_body(count: int) -> str:
    lines = ["define void @B(ptr %a, ptr %b) {", "  %x0 = load volatile i64, ptr %a"]
    for n in range(count):
        lines.append(f"  %x{n + 1} = mul i64 %x{n}, %x{n // 2}")
    return "\n".join([*lines, f"  store i64 %x{count}, ptr %b", "  ret void", "}"])
