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
    watched = "from IPython.display import display\ndisplay(query)\nquery.await_end(12)"
    asked = nbformat.v4.new_code_cell(watched)
    shown = next(n for n, cell in enumerate(notebook.cells) if "query.stop()" in cell.source)
    notebook.cells.insert(shown, asked)
    outputs = run(notebook, tmp_path)
    whole = "".join(str(output) for outs in outputs for output in outs)
    assert "tumbling 5 minutes" in whole
    card = next(o for outs in outputs for o in outs if "<b>the query</b>" in str(o))
    assert "text/plain" in card.data
    followed = asked.outputs[0].data["text/html"]
    assert "messages/s" in followed
    assert "<td>seen</td>" in followed
