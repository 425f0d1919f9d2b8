"""No module imports another one that needs it, not even within a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import muntin

ROOT = Path(muntin.__file__).parent
MODULES = {
    ".".join(("muntin", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in ROOT.rglob("*.py")
}


def imported_modules(node: ast.AST) -> Iterator[str]:
    """Yield the imported modules of muntin, without those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.ImportFrom):
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield submodule if submodule in MODULES else str(child.module)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        yield from imported_modules(child)


def find_cycle(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_imports_have_no_cycle() -> None:
    imports = {
        name: {one for one in imported_modules(ast.parse(path.read_text())) if one in MODULES}
        for name, path in MODULES.items()
    }
    assert len(imports) > 400
    assert find_cycle(imports) == []


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) != []
