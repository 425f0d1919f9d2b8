"""Creates a virtual environment for each peer from its pinned requirements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENVS = HERE / ".venvs"
INSTALL_SECONDS = 1800


class CannotInstallError(Exception):
    """A peer's environment can't be created; the message says why."""


def ensure(name: str) -> Path:
    """Return the Python of an environment, which is created or updated if necessary.

    Raises:
        CannotInstallError: When it can't be created.
    """
    pins = (HERE / "requirements" / f"{name}.txt").read_text()
    folder = VENVS / name
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    if stamp.exists() and stamp.read_text() == pins:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    requirements = str(HERE / "requirements" / f"{name}.txt")
    _call([str(python), "-m", "pip", "install", "--quiet", "-r", requirements])
    stamp.write_text(pins)
    return python


def jars(name: str) -> list[Path]:
    """Return the libraries of an environment from Maven's repository; missing ones are fetched.

    Raises:
        CannotInstallError: When there is no Maven, or it can't fetch one.
    """
    listed, folder = HERE / "requirements" / f"{name}.jars", VENVS / name / "jars"
    paths = []
    for coordinates in listed.read_text().split() if listed.exists() else []:
        _, artifact, version = coordinates.split(":")
        path = folder / f"{artifact}-{version}.jar"
        if not path.exists():
            if shutil.which("mvn") is None:
                raise CannotInstallError(f"{path.name} is fetched by Maven, which isn't there")
            options = [f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
            _call(["mvn", "--quiet", "--batch-mode", "dependency:copy", *options])
        paths.append(path)
    return paths


def _call(command: list[str]) -> None:
    """Run one step of an installation."""
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise CannotInstallError(f"took more than {INSTALL_SECONDS} s") from late
    except (subprocess.CalledProcessError, OSError) as failure:
        lines = (getattr(failure, "stderr", b"") or b"").decode(errors="replace").split("\n")
        errors = [line for line in lines if "ERROR" in line] or [str(failure)]
        raise CannotInstallError(errors[-1].strip()) from failure


def has_java() -> bool:
    """Return whether a Java runtime can be started."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java") is not None or bool(home and (Path(home) / "bin/java").exists())
