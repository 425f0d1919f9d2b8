"""Streams of calendar windows with a zone per key."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from tests.property.streams import CHANGES, Range, Stream, any_streams

from muntin.model.days import Days
from muntin.model.zones import ZonedWindows

ZONES = (*CHANGES, "Asia/Kathmandu", "Nowhere", None)


@st.composite
def zoned_streams(draw: st.DrawFn) -> Stream:
    """Draw a stream of windows of days, in which each message has a zone."""
    stream = draw(any_streams(Range(("days",), replays=True)))
    spec, windows = stream.spec, stream.spec.windows
    assert isinstance(windows, Days)
    zones = draw(st.lists(st.sampled_from(ZONES), min_size=1, max_size=4))
    zoned = replace(
        spec,
        keys=(*spec.keys, "tz"),
        windows=ZonedWindows(replace(windows, zone="UTC"), "tz"),
        firing=replace(spec.firing, rows=None),
        types={**spec.types, "tz": "string"},
    )
    number = 0
    steps = []
    for step in stream.steps:
        messages = []
        for message in step.messages:
            # A repeated message has the same zone as before.
            number = (
                hash(tuple(message[name] for name in spec.offset)) if spec.offset else number + 1
            )
            messages.append({**message, "tz": zones[number % len(zones)]})
        steps.append(replace(step, messages=messages))
    return replace(stream, spec=zoned, steps=steps)
