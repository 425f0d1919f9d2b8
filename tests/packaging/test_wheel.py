"""Builds wheel and sdist, and uses the installed package without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The base is what one process needs: Polars, PyArrow and NumPy are most of it.
MOST_MEGABYTES = 480
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SCRIPT = """
import polars as pl
import muntin as mt
from muntin.sinks.batch import Batch, LocalRows

try:
    import pyspark
except ModuleNotFoundError:
    pass
else:
    raise SystemExit("Spark is installed")

spec = mt.standalone.windowed(key="shop", time="at").tumbling("10 us").agg(n=mt.count())
op = mt.standalone.WindowedAggregator(spec)
for at in (1, 9, 12):
    op.add_message(key="north", time=at)
print(op.get_result()["n"].to_list())

frame = pl.DataFrame({"shop": ["a", "a"], "at": [1, 12]}).cast({"at": pl.Datetime("us", "UTC")})
sales = mt.windowed(frame, key="shop", time="at").tumbling("10 us").agg(n=mt.count())
print(sales.results["n"].to_list())

app = mt.App("shop")
sold = app.Table("sold", default=int)

@app.agent(app.topic("orders"))
async def count(orders):
    async for order in orders:
        sold[order["shop"]] += order["n"]

with app.open() as shop:
    shop.feed({"orders": mt.source([{"shop": "a", "n": 2, "at": 1}], key="shop", time="at")})
    print(sold["a"])

sink = mt.to_memory()
rows = LocalRows(pl.DataFrame({"key": ["a"], "n": [1]}))
sink.write(Batch(0, "rejected", rows.table().schema, None, rows))
print(sink.frame().rows())

try:
    mt.windowed(mt.kafka("localhost:9092", "clicks", columns="at timestamp"), time="at")
except mt.MissingExtraError as error:
    print(error)
for name in ("session", "on_spark"):
    try:
        getattr(mt, name)
    except mt.MissingExtraError as error:
        print(error)
"""


def run(*command: str | Path, cwd: Path) -> str:
    completed = subprocess.run([*map(str, command)], cwd=cwd, text=True, capture_output=True)
    assert completed.returncode == 0, f"{completed.stdout}\n{completed.stderr}"
    return completed.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run("bash", ROOT / "scripts" / "build.sh", folder, cwd=ROOT)
    return folder


def test_the_bill_of_materials_holds_every_package_that_an_extra_brings(dist: Path) -> None:
    materials = json.loads((dist / "muntin.cdx.json").read_text())
    components = {package["name"]: package for package in materials["components"]}
    locked = {
        package["name"]: package
        for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    }
    extras = locked["muntin"]["optional-dependencies"].values()
    direct = {package["name"] for group in extras for package in group} | {
        "numpy",
        "polars",
        "pyarrow",
    }
    assert direct <= {*components}
    for name in direct:
        assert components[name]["purl"] == f"pkg:pypi/{name}@{locked[name]['version']}"
        assert components[name]["externalReferences"][0]["hashes"][0]["alg"] == "SHA-256"


def test_the_wheel_holds_the_package_and_what_it_shows(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"muntin/__init__.pyi", "muntin/py.typed", "muntin/serve/static/page.js"} <= {*names}
    assert not [name for name in names if name.startswith(("tests/", "benches/"))]
    text = zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("METADATA"))).decode()
    requirements = [line for line in text.splitlines() if line.startswith("Requires-Dist")]
    base = {line.split()[1].split(">")[0] for line in requirements if "extra ==" not in line}
    assert base == {"numpy", "polars", "pyarrow", "tzdata"}


def test_the_sdist_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    code = "import sys; from hatchling import build; print(build.build_wheel(sys.argv[1]))"
    run(sys.executable, "-c", code, tmp_path, cwd=folder)
    (rebuilt_wheel,) = tmp_path.glob("*.whl")
    assert sorted(zipfile.ZipFile(rebuilt_wheel).namelist()) == sorted(
        zipfile.ZipFile(wheel).namelist()
    )


def test_the_base_works_without_spark(dist: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    printed = run(python, "-c", SCRIPT, cwd=tmp_path).splitlines()
    extra = "needs an extra: pip install 'muntin[spark]'"
    assert printed == [
        "[2]",
        "[1, 1]",
        "2",
        "[('a', 1, 0)]",
        "reading topics needs an extra: pip install 'muntin[kafka]'",
        *[f"a query on Spark (pyspark isn't installed) {extra}"] * 2,
    ]
    size = sum(path.stat().st_size for path in (tmp_path / "venv").rglob("*") if path.is_file())
    assert size < MOST_MEGABYTES << 20, f"{size >> 20} MB"
