"""Python runs this file at the start of each process of a local Spark.

``use_compiled_modules`` of ``python_start.py`` puts this folder on the path of those processes.
Python runs only the first ``sitecustomize`` on its path, so this one runs the next one, too.
"""

import runpy
import sys
from importlib.machinery import PathFinder
from pathlib import Path

_FOLDER = Path(__file__).parent


def run_next() -> None:
    """Run the ``sitecustomize`` that this one hides, if the environment has one."""
    rest = [path for path in sys.path if Path(path or ".").resolve() != _FOLDER.resolve()]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.origin is not None:
        runpy.run_path(spec.origin, run_name="sitecustomize")


runpy.run_path(str(_FOLDER.with_name("python_start.py")))["prefer_installed"]()
run_next()
