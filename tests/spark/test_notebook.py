"""The example's notebook runs in Jupyter, and a query's card follows it there."""

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
# In place of the seconds that a reader watches.
WATCHED = """
import time
from IPython.display import display

display(query)
while query.progress.batch < 3:
    time.sleep(0.1)
query.await_end(3)
"""


def run(notebook: Any, folder: Path) -> list[Any]:
    """Run a notebook in a kernel of this Python; the outputs of its cells."""
    kernel = KernelSpecManager(kernel_dirs=[f"{sys.prefix}/share/jupyter/kernels"])
    assert "python3" in kernel.find_kernel_specs()
    NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_the_first_hour(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    asked = nbformat.v4.new_code_cell(WATCHED)
    shown = next(n for n, cell in enumerate(notebook.cells) if "query.stop()" in cell.source)
    waits, rest = notebook.cells[shown].source.split("\n", 1)
    assert waits == "query.await_end(20)"
    notebook.cells[shown].source = rest
    notebook.cells.insert(shown, asked)
    outputs = run(notebook, tmp_path)
    whole = "".join(str(output) for outs in outputs for output in outs)
    assert "tumbling 5 minutes" in whole
    card = next(o for outs in outputs for o in outs if "<b>the query</b>" in str(o))
    assert "text/plain" in card.data
    followed = asked.outputs[0].data["text/html"]
    assert "messages/s" in followed
    assert "<td>seen</td>" in followed
