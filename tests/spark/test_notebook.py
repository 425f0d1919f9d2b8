"""Tests that the example's notebook runs in Jupyter, and that a query's card is updated there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_hour.ipynb"
pytestmark = pytest.mark.slow
# Replaces the seconds for which a reader watches the query.
WATCHED = """
import time
from IPython.display import display

display(query)
while query.progress.batch < 3:
    time.sleep(0.1)
query.await_end(3)
"""


def run(notebook: Any, folder: Path) -> list[Any]:
    """Run a notebook in a kernel of this Python, and return the outputs of its cells."""
    kernel = KernelSpecManager(kernel_dirs=[f"{sys.prefix}/share/jupyter/kernels"])
    assert "python3" in kernel.find_kernel_specs()
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_the_first_hour(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    watching_cell = nbformat.v4.new_code_cell(WATCHED)
    position = next(n for n, cell in enumerate(notebook.cells) if "query.stop()" in cell.source)
    first_line, rest = notebook.cells[position].source.split("\n", 1)
    assert first_line == "query.await_end(20)"
    notebook.cells[position].source = rest
    notebook.cells.insert(position, watching_cell)
    outputs = run(notebook, tmp_path)
    whole = "".join(str(output) for outs in outputs for output in outs)
    assert "tumbling 5 minutes" in whole
    card = next(o for outs in outputs for o in outs if "<b>the query</b>" in str(o))
    assert "text/plain" in card.data
    updated_card = watching_cell.outputs[0].data["text/html"]
    assert "messages/s" in updated_card
    assert "<td>seen</td>" in updated_card
