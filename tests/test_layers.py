"""The dependency order of the package, checked on its source."""

import ast
from collections.abc import Iterator
from pathlib import Path

# Bottom first. A module imports from lower rows only, and modules of one row do not
# import each other. Imports in functions and under TYPE_CHECKING count as well.
LAYERS = (
    ("errors",),
    ("reading",),
    ("ir", "target"),
    ("te",),
    ("schedule",),
    ("space", "codegen", "records"),
    ("cost", "measure"),
    ("search",),
    ("frontend",),
    ("report",),
    ("cli",),
)
LEVEL = {name: level for level, row in enumerate(LAYERS) for name in row}
# Files at the top that re-export or start anything.
FACADES = {"__init__", "__main__", "ops", "kernel_api"}
SOURCE = Path(__file__).parents[1] / "src" / "ansor"


def test_every_module_has_a_level():
    tops = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")}
    assert {top.removesuffix(".py") for top in tops} <= {*LEVEL, *FACADES}


def test_imports_point_down():
    bad = [
        f"{where}: {importer} imports {imported}"
        for importer, imported, where in imports()
        if importer != imported and LEVEL.get(imported, len(LAYERS)) >= LEVEL[importer]
    ]
    assert not bad, "\n".join(bad)


def imports() -> Iterator[tuple[str, str, str]]:
    """(importing module, imported module, place) of every import inside the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        importer = path.relative_to(SOURCE).with_suffix("").parts[0]
        if importer in FACADES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in imported_names(node):
                root, _, rest = name.partition(".")
                if root == "ansor":
                    module = rest.split(".")[0] or "__init__"
                    yield importer, module, f"{path.name}:{node.lineno}"


def imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []
