"""This build opens, resumes and moves the states of earlier builds."""

from __future__ import annotations

import pytest
from tests.contract.checkpoints import BATCHES, TABLES, MemoryCheckpoint, image_of, rescaled
from tests.migration.kept import (
    BEFORE,
    CLICKS,
    FOLDER,
    loads,
    make_queries,
    make_specs,
    make_stores,
    tables_images,
)

from muntin.dataframe.state import report_checkpoint
from muntin.hosts.inspect.opening import read_spec
from muntin.model.errors import OptionError
from muntin.spark.inspect.tables import OpenTable
from muntin.state.manifest import MANIFEST_FORMAT

STATES = {path.name.partition(".")[0]: loads(path.read_bytes()) for path in FOLDER.glob("*.xz")}
# The windowing application has left the package, and its state isn't read any more.
REMOVED_KIND = "windowing"
STORED = [
    (form, name) for form, images in STATES.items() for name in images if name != REMOVED_KIND
]
RESUMABLE = [(form, name) for form, name in STORED if name in make_queries()]


def test_the_present_format_is_kept() -> None:
    assert f"format-{MANIFEST_FORMAT}" in STATES
    assert {name for _, name in RESUMABLE} == set(make_queries())


@pytest.mark.parametrize(("form", "name"), RESUMABLE)
def test_a_query_goes_on(form: str, name: str) -> None:
    start_run = make_queries()[name]
    expected = start_run(None).take(BATCHES)
    run = start_run(make_stores(STATES[form][name]))
    assert run.take(BATCHES[BEFORE:]) == expected[BEFORE:]


@pytest.mark.parametrize(("form", "name"), RESUMABLE)
def test_a_query_goes_on_in_other_shards(form: str, name: str) -> None:
    run = make_queries()[name](make_stores(STATES[form][name]))
    expected = make_queries()[name](None).take(BATCHES)
    moved = run.moved(3, make_queries(3)[name])
    assert moved.take(BATCHES[BEFORE:]) == expected[BEFORE:]


def test_tables_lie_in_other_partitions() -> None:
    images_of_tables = [
        image for images in STATES.values() for name, image in images.items() if name == "tables"
    ]
    for image in images_of_tables:
        before = MemoryCheckpoint([image])
        for shards in (1, 3):
            after = MemoryCheckpoint([image_of(rescaled(make_stores(image), shards))])
            for table in TABLES:
                frame, moved_frame = (
                    OpenTable(c, table, None, None).fetch() for c in (before, after)
                )
                assert sorted(map(str, frame.rows())) == sorted(map(str, moved_frame.rows()))
                assert len(frame)


@pytest.mark.parametrize(("form", "name"), STORED)
def test_it_is_read_from_outside(form: str, name: str) -> None:
    checkpoint = MemoryCheckpoint([STATES[form][name]])
    report = report_checkpoint(checkpoint)
    assert sum(table["rows"] for table in report["tables"]) > 0 or name == "windows rows that slide"
    if report["kind"] == "tables":
        current = MemoryCheckpoint(tables_images(CLICKS)[-1:])
        for table in TABLES:
            stored = OpenTable(checkpoint, table, None, None).fetch()
            assert stored.equals(OpenTable(current, table, None, None).fetch())
    elif name in make_specs():
        assert read_spec(checkpoint) == make_specs()[name]


def test_state_of_a_kind_that_is_gone_is_refused_by_name() -> None:
    images = [
        image
        for images_by_name in STATES.values()
        for name, image in images_by_name.items()
        if name == REMOVED_KIND
    ]
    assert images
    for image in images:
        checkpoint = MemoryCheckpoint([image])
        for read_state in (read_spec, report_checkpoint):
            with pytest.raises(OptionError, match="state of another kind, 'windowing'; use the"):
                read_state(checkpoint)
        with pytest.raises(OptionError, match="isn't a kind of state that this version divides"):
            rescaled(make_stores(image), 3)
