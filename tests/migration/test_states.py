"""State that an earlier build wrote is opened, gone on from and moved by this one."""

from __future__ import annotations

import pytest
from tests.contract.checkpoints import BATCHES, TABLES, MemoryCheckpoint, image_of, rescaled
from tests.migration.kept import (
    BEFORE,
    CLICKS,
    FOLDER,
    loads,
    queries,
    specs,
    stores_of,
    tables_images,
)

from muntin.dataframe.state import report_checkpoint
from muntin.hosts.inspect.opening import read_spec
from muntin.model.errors import OptionError
from muntin.spark.inspect.tables import OpenTable
from muntin.state.manifest import MANIFEST_FORMAT

STATES = {path.name.partition(".")[0]: loads(path.read_bytes()) for path in FOLDER.glob("*.xz")}
# The windowing application has left the package, and its state isn't read any more.
GONE = "windowing"
KEPT = [(form, name) for form, images in STATES.items() for name in images if name != GONE]
GOES_ON = [(form, name) for form, name in KEPT if name in queries()]


def test_the_present_format_is_kept() -> None:
    assert f"format-{MANIFEST_FORMAT}" in STATES
    assert {name for _, name in GOES_ON} == set(queries())


@pytest.mark.parametrize(("form", "name"), GOES_ON)
def test_a_query_goes_on(form: str, name: str) -> None:
    started = queries()[name]
    wanted = started(None).take(BATCHES)
    run = started(stores_of(STATES[form][name]))
    assert run.take(BATCHES[BEFORE:]) == wanted[BEFORE:]


@pytest.mark.parametrize(("form", "name"), GOES_ON)
def test_a_query_goes_on_in_other_shards(form: str, name: str) -> None:
    run = queries()[name](stores_of(STATES[form][name]))
    wanted = queries()[name](None).take(BATCHES)
    moved = run.moved(3, queries(3)[name])
    assert moved.take(BATCHES[BEFORE:]) == wanted[BEFORE:]


def test_tables_lie_in_other_partitions() -> None:
    kept = [
        image for images in STATES.values() for name, image in images.items() if name == "tables"
    ]
    for image in kept:
        before = MemoryCheckpoint([image])
        for shards in (1, 3):
            after = MemoryCheckpoint([image_of(rescaled(stores_of(image), shards))])
            for table in TABLES:
                one, other = (OpenTable(c, table, None, None).fetch() for c in (before, after))
                assert sorted(map(str, one.rows())) == sorted(map(str, other.rows()))
                assert len(one)


@pytest.mark.parametrize(("form", "name"), KEPT)
def test_it_is_read_from_outside(form: str, name: str) -> None:
    checkpoint = MemoryCheckpoint([STATES[form][name]])
    report = report_checkpoint(checkpoint)
    assert sum(table["rows"] for table in report["tables"]) > 0 or name == "windows rows that slide"
    if report["kind"] == "tables":
        now = MemoryCheckpoint(tables_images(CLICKS)[-1:])
        for table in TABLES:
            held = OpenTable(checkpoint, table, None, None).fetch()
            assert held.equals(OpenTable(now, table, None, None).fetch())
    elif name in specs():
        assert read_spec(checkpoint) == specs()[name]


def test_state_of_a_kind_that_is_gone_is_refused_by_name() -> None:
    images = [image for kept in STATES.values() for name, image in kept.items() if name == GONE]
    assert images
    for image in images:
        checkpoint = MemoryCheckpoint([image])
        for read in (read_spec, report_checkpoint):
            with pytest.raises(OptionError, match="state of another kind, 'windowing'; use the"):
                read(checkpoint)
        with pytest.raises(OptionError, match="isn't a kind of state that this version divides"):
            rescaled(stores_of(image), 3)
