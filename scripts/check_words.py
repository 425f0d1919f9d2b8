"""Fails when code or prose has more of the words that CONTRIBUTING advises against than before.

Each counter has a limit in ``scripts/word_limits.json``, which only goes down: ``check_words.py``
fails above a limit, ``--list COUNTER`` prints the places that a counter counts, and ``--lower``
writes the present counts where they are below the limits.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = ROOT / "scripts" / "word_limits.json"

PRIVATE_WORDS = r"found|made|given|known|there|kept|place|told"
PARTICIPLES = (
    "broken|built|begun|chosen|drawn|fed|found|given|gone|held|kept|known|led|left|lent|made|"
    r"meant|met|paid|said|seen|sent|shown|spoken|taken|thrown|told|worn|written|\w\w\w+ed"
)
ADVERBS = (
    "above|after|alone|anew|apart|before|below|beside|besides|beyond|here|likewise|once|plainly|"
    "there|together|whole|within"
)
NOUNS_IN_ED = "bed|embed|exceed|feed|need|proceed|red|seed|shed|speed|succeed|weed"
UNCLEAR_STARTS = r"(See|The same|Likewise|As ``|What|Which|Of|How|Whether|Where)\b"
SENTENCE_WORDS = 35

# Questions about a kind are answered by its attributes, so that a new kind answers them itself.
WINDOW_KINDS = {
    *("Windows", "Cumulating", "Days", "Hours", "Months", "Sliding", "Trailing", "Sessions"),
    *("ZonedWindows", "Moving", "ByNumber", "WindowKind", "Paned", "Numbered", "Uniform", "Kind"),
}

# Tests have their own counts, without the names that several modules define.
OTHER_FOLDERS = ("benches", "examples", "scripts", "tests")
COUNTERS_OF_TESTS = {
    "functions named by a participle": "functions of tests named by a participle",
    "private words as identifiers": "private words as identifiers in tests",
    "docstrings with an unclear start": "docstrings of tests with an unclear start",
}

Finding = tuple[str, str]
"""The name of a counter, and one thing that it counts with its location."""


def check_modules(folder: Path) -> Iterator[Finding]:
    """Yield the findings of all modules below a folder."""
    modules_of: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        module = str(path.relative_to(folder))
        # Environments and caches are in folders whose names start with a dot.
        if any(part.startswith(".") for part in Path(module).parts):
            continue
        tree = ast.parse(path.read_text())
        for name in _public_names(tree):
            modules_of.setdefault(name, []).append(module)
        for node in ast.walk(tree):
            yield from _check_node(node, module)
    for name, modules in modules_of.items():
        if len(modules) > 1:
            yield "public names in several modules", f"{name}: {', '.join(modules)}"


def _public_names(tree: ast.Module) -> set[str]:
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def _check_node(node: ast.AST, module: str) -> Iterator[Finding]:
    location = f"{module}:{getattr(node, 'lineno', 1)}"
    if (
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and is_participle(node.name)
        and not _is_noun_property(node)
    ):
        yield "functions named by a participle", f"{location} {node.name}"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        text = (ast.get_docstring(node) or "").strip()
        if re.match(UNCLEAR_STARTS, text):
            yield "docstrings with an unclear start", f"{location} {text.splitlines()[0]}"
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        classes = {
            getattr(child, "id", "") for argument in node.args[1:] for child in ast.walk(argument)
        }
        if classes & WINDOW_KINDS:
            yield "isinstance on window kinds", f"{location} {ast.unparse(node)}"
    identifier = {ast.Name: "id", ast.arg: "arg", ast.Attribute: "attr"}.get(type(node), "")
    if re.fullmatch(PRIVATE_WORDS, getattr(node, identifier, "")):
        yield "private words as identifiers", f"{location} {getattr(node, identifier)}"


def _is_noun_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a property named by a noun phrase, such as `late_messages`."""
    names = {getattr(decorator, "id", "") for decorator in function.decorator_list}
    return bool(names & {"property", "cached_property"}) and "_" in function.name.strip("_")


def is_participle(function: str) -> bool:
    """Return whether a function's name starts with a participle or an adverb, not with a verb."""
    # Spark calls methods of its listeners by names in another style, such as onQueryStarted.
    if function.startswith("__") or function != function.lower():
        return False
    first, *rest = function.strip("_").split("_")
    if any(re.fullmatch(NOUNS_IN_ED, word) for word in (first, *rest[-1:])):
        return False
    return re.fullmatch(f"{PARTICIPLES}|{ADVERBS}", first) is not None


def check_tests(folders: list[Path]) -> Iterator[Finding]:
    """Yield the findings of tests, benchmarks, examples and scripts, which have own counters."""
    for folder in folders:
        for counter, finding in check_modules(folder):
            if counter in COUNTERS_OF_TESTS and not _is_given_of_hypothesis(folder, finding):
                yield COUNTERS_OF_TESTS[counter], f"{folder.name}/{finding}"


def _is_given_of_hypothesis(folder: Path, finding: str) -> bool:
    module, _, name = finding.rpartition(":")
    text = (folder / module).read_text() if name.endswith(" given") else ""
    return re.search(r"from hypothesis import [\w\s,(]*\bgiven\b", text) is not None


def check_prose(pages: list[Path]) -> Iterator[Finding]:
    """Yield the sentences of Markdown pages that are too long; tables and code are passed over."""
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        text = re.sub(r"\]\([^)]*\)", "]", text)
        for block in re.split(r"\n\s*\n|\n(?=[-|#])", text):
            if block.lstrip().startswith("|"):
                continue
            for sentence in re.split(r"(?<=[.!?:;])\s+", block):
                words = sentence.split()
                if len(words) > SENTENCE_WORDS:
                    yield "long sentences", f"{page.name}: {' '.join(words[:8])} … ({len(words)})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the counts of unclear words.")
    parser.add_argument("--list", metavar="COUNTER", help="print the places that it counts")
    parser.add_argument("--lower", action="store_true", help="lower the limits to these counts")
    options = parser.parse_args()
    limits: dict[str, int] = json.loads(LIMITS.read_text())
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    findings: dict[str, list[str]] = {counter: [] for counter in limits}
    folders = [ROOT / name for name in OTHER_FOLDERS]
    sources = check_modules(ROOT / "src" / "muntin")
    for counter, finding in [*sources, *check_tests(folders), *check_prose(pages)]:
        findings[counter].append(finding)
    if options.list:
        print("\n".join(findings[options.list]))
        return 0
    counts = {counter: len(listed) for counter, listed in findings.items()}
    if options.lower:
        lowered = {counter: min(limits[counter], count) for counter, count in counts.items()}
        LIMITS.write_text(json.dumps(lowered, indent=4) + "\n")
    above = {counter for counter, count in counts.items() if count > limits[counter]}
    for counter, count in counts.items():
        over = ": too many; see check_words.py --list" if counter in above else ""
        print(f"words: {counter} {count}, limit {limits[counter]}{over}")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
