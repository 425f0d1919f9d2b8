"""The examples in the docstrings of every module that can be imported without Spark."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import muntin

ROOT = Path(muntin.__file__).parent
MODULES = sorted(
    ".".join(("muntin", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if "spark" not in path.relative_to(ROOT).parts
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "muntin").startswith("muntin"):
            raise
        pytest.skip(f"{missing.name} isn't installed")
    assert doctest.testmod(module).failed == 0


def test_the_model_has_examples() -> None:
    names = [name for name in MODULES if name.startswith("muntin.model.")]
    assert sum(doctest.testmod(importlib.import_module(name)).attempted for name in names) > 5
