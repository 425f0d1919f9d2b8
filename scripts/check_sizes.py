"""Fails when a file or function under src/ is too long, or a module's name says nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES = 500
FUNCTION_LINES = 45
EMPTY_NAMES = {"utils", "helpers", "base", "manager", "impl"}


def count_docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of the docstring, which isn't limited."""
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return 0
    return (first.end_lineno or first.lineno) - first.lineno + 1


def find_long_functions(path: Path, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text, filename=str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (
                (node.end_lineno or node.lineno) - node.lineno + 1 - count_docstring_lines(node)
            )
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno} {node.name} {length} lines, over {FUNCTION_LINES}"


def find_violations(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        module = path.parent.name if path.stem == "__init__" else path.stem
        if module.strip("_").lower() in EMPTY_NAMES:
            yield f"{path}:1 {module} is a name that says nothing"
        length = len(text.splitlines())
        if length > FILE_LINES:
            yield f"{path}:1 {path.name} {length} lines, over {FILE_LINES}"
        yield from find_long_functions(path, text)


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "src")
    if not root.is_dir():
        print(f"{root} is not a folder")
        return 1
    violations = list(find_violations(root))
    print("\n".join(violations) or f"sizes: every file and function in {root} is within bounds")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
