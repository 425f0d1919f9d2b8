"""Prints the test files that a change touches: select_tests.py BASE, usually main.

A change is what differs from where this branch left BASE, with what isn't committed yet. It touches
a test file that it changes, the one that mirrors a changed module, and each one that imports a
changed module itself or through other modules of the tests.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def select_tests(changed: Iterable[str], root: Path) -> list[str]:
    """Return the test files that a change touches, by path and in order.

    Args:
        changed: Paths of changed files, from the root.
        root: The folder of the repository.
    """
    tests = {_module_of(path.relative_to(root)): path for path in (root / "tests").rglob("*.py")}
    imports = {module: _read_imports(path) for module, path in tests.items()}
    touched = {_module_of(Path(path)) for path in changed if path.endswith(".py")}
    touched |= {mirror for module in touched if (mirror := _mirror_of(module)) in tests}
    while importers := {m for m in tests if imports[m] & touched} - touched:
        touched |= importers
    selected = (tests[module].relative_to(root) for module in touched & set(tests))
    return sorted(str(path) for path in selected if path.name.startswith("test_"))


def list_changes(base: str, root: Path) -> list[str]:
    """Return the paths of the files that differ from where this branch left ``base``."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout

    start = git("merge-base", base, "HEAD").strip()
    differing = git("diff", "--name-only", "--diff-filter=d", start)
    untracked = git("ls-files", "--others", "--exclude-standard")
    return [*differing.splitlines(), *untracked.splitlines()]


def _module_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _mirror_of(module: str) -> str:
    """Return the module that tests this one, whether or not it exists."""
    package, _, name = module.removeprefix("muntin.").rpartition(".")
    return ".".join(part for part in ("tests.unit", package, f"test_{name}") if part)


def _read_imports(path: Path) -> set[str]:
    """Return the modules that a file imports; of ``from a import b``, both ``a`` and ``a.b``."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


if __name__ == "__main__":
    root = Path(__file__).parent.parent
    print(*select_tests(list_changes(sys.argv[1], root), root), sep="\n")
