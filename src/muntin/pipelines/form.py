"""The form of a pipeline in TOML, checked by pydantic; editors use its JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from muntin.model.errors import MissingExtraError
from muntin.model.fill import FillWord
from muntin.model.inputs import DURATIONS, DurationOption, WatermarkBy
from muntin.model.option_types import MOST_SHARDS
from muntin.model.sliding import ClosedSides
from muntin.model.spec import Nulls

try:
    from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model
    from pydantic import ValidationError as ValidationError
except ImportError as error:
    raise MissingExtraError("a pipeline in TOML", "sql") from error

Text = Annotated[str, StringConstraints(min_length=1)]
LENGTH = 'A duration, "10 minutes" or "PT10M"; or a number of messages, "3 rows".'


class _Part(BaseModel):
    """A part of the file; unknown entries are mistakes."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True)


def _declare_duration(option: DurationOption) -> Any:
    kind: Any = Text | None if option.default is None else Text
    return kind, Field(option.default, description=option.title)


_InputForm: Any = create_model(
    "_InputForm", __base__=_Part, **{one.name: _declare_duration(one) for one in DURATIONS}
)


class TableForm(_InputForm):  # type: ignore[misc]
    """A source or a sink."""

    connector: Text = Field(description="parquet, csv, json, kafka, rate, duckdb, …")
    path: Text | None = Field(None, description="Short for options.path.")
    columns: dict[Text, Text] | None = Field(None, description="Names and types, as Spark's.")
    computed: dict[Text, Text] = Field({}, description="Names and Spark SQL expressions.")
    time: Text | None = Field(None, description="The event-time column.")
    watermark: WatermarkBy | list[Text] | None = Field(
        None, description="What the watermark follows: source, greatest, or columns with clocks."
    )
    offset: list[Text] | None = Field(
        None, min_length=2, max_length=2, description="Columns of partition and offset."
    )
    clock: Text | None = Field(None, description="The column with the arrival times of messages.")
    mode: Literal["stream", "batch"] = Field("stream", description="How it is read.")
    options: dict[Text, str | int | float | bool] = Field(
        {}, description="Options of the connector; secrets only as ${env:NAME}."
    )


class OnePolicyForm(_Part):
    """When a window emits: after each batch, by rows, every, after, or whichever comes first."""

    each: bool = Field(False, description="After each batch that changed it.")
    rows: int | None = Field(None, ge=1, description="After so many new messages.")
    every: Text | None = Field(None, description="When the wall clock passes a multiple of this.")
    at_least: int | None = Field(
        None, ge=1, description="Beside every: only windows with so many new messages."
    )
    after: Text | None = Field(
        None, description="When this wall-clock time has passed since a new message."
    )
    since: Literal["first", "last"] | None = Field(
        None, description="Beside after: the new message to measure from; first by default."
    )
    when: Text | None = Field(
        None, description="After each batch that changed it, if this holds: worst > 100."
    )


class PolicyForm(OnePolicyForm):
    """When a window emits first, and when it emits after that."""

    then: OnePolicyForm | Literal["never"] | None = Field(
        None, description="The policy after the first emission: {every = '1 minute'}, or 'never'."
    )


class EarlyForm(PolicyForm):
    """When a window emits before it is full."""

    over: int | None = Field(
        None, ge=1, description="Beyond so many changed windows that wait, the oldest emit."
    )
    stop: bool = Field(False, description="Beside over: stop with an error instead.")


class FullForm(_Part):
    """Full emissions, when windows end."""

    repeat: bool = Field(True, description="Also if nothing is new since it emitted early.")


class FillForm(_Part):
    """Emissions of windows without messages."""

    value: FillWord | None = Field(
        None, description="For all: zero or null for sums and 0 for counts; previous; or linear."
    )
    values: dict[Text, bool | int | float | str] = Field(
        {}, description="One of these words, or a constant, for aggregates by their names."
    )
    up_to: Text = Field(description=f"How long after its last window with a message. {LENGTH}")


class WindowsForm(_Part):
    """The kind of windows: tumbling, hopping, cumulating, sliding, rolling, trailing or session."""

    tumbling: Text | None = Field(None, description=f"The size. {LENGTH}")
    hopping: Text | None = Field(None, description=f"The size; needs slide. {LENGTH}")
    cumulating: Text | None = Field(None, description=f"The longest size; needs step. {LENGTH}")
    sliding: Text | None = Field(None, description=f"The size. {LENGTH}")
    rolling: Text | None = Field(
        None, description=f"How far the row of each message looks back. {LENGTH}"
    )
    trailing: Text | list[Text] | None = Field(
        None, description=f"One look-back or several; needs every. {LENGTH}"
    )
    every: Text | None = Field(
        None, description="The distance between the times of the rows of trailing windows."
    )
    session: Text | None = Field(None, description=f"The gap. {LENGTH}")
    longest: Text | None = Field(None, description="The longest duration of a session.")
    start: Text | None = Field(
        None, description="The condition, in SQL, of messages that begin a session."
    )
    end: Text | None = Field(
        None, description="The condition, in SQL, of messages that end their session."
    )
    same: Text | None = Field(
        None, description="The column, or SQL, that keeps its value within a session."
    )
    slide: Text | None = Field(None, description="The distance between two starts.")
    step: Text | None = Field(None, description="The distance between two ends.")
    origin: Text | None = Field(None, description="A time at which some window starts.")
    zone: Text | None = Field(
        None, description="A time zone, for calendar days, parts of them, and months."
    )
    zone_column: Text | None = Field(
        None, description="The column with the time zone of each key, in place of one zone."
    )
    overlap: int | None = Field(
        None, ge=1, description="The greatest number of windows that a message may be in."
    )
    closed: ClosedSides | None = Field(
        None, description="The ends that belong to sessions (both, left) and rolling windows."
    )


class QueryForm(_Part):
    """A windowed aggregation, and the tables that take its results."""

    source: Text = Field(alias="from", description="The table that it reads.")
    columns: dict[Text, Text] = Field(
        {}, description="More columns of the source: names and Spark SQL expressions."
    )
    where: Text | None = Field(None, description="The condition on messages, in Spark SQL.")
    key: Text | list[Text] = Field([], description="The key columns.")
    nulls: Nulls = Field(
        "reject", description="Whether NULL in a key is rejected, or a group of its own."
    )
    sets: Literal["rollup", "cube"] | list[list[Text]] | None = Field(
        None, description="Sets of key columns to group by, as GROUPING SETS."
    )
    windows: WindowsForm
    early: EarlyForm | None = None
    full: FullForm | None = None
    fill: FillForm | None = None
    late: PolicyForm | None = None
    grace: Text | None = Field(None, description=f"How long late messages are accepted. {LENGTH}")
    keep: Text | None = Field(None, description=f"How long state is kept. {LENGTH}")
    deltas: bool = Field(False, description="Whether an emission has only the new messages.")
    agg: dict[Text, Text] = Field(
        min_length=1, description='Names and aggregates in SQL, "quantile(delay, 0.95)".'
    )
    having: Text | None = Field(None, description="The condition on emissions, in Spark SQL.")
    into: Text = Field(description="The table of the results.")
    rejected: Text | None = Field(None, description="The table of rejected messages.")


class PipelineForm(_Part):
    """A muntin pipeline: tables, and queries over them."""

    model_config = ConfigDict(
        extra="forbid", strict=True, title="muntin pipeline", populate_by_name=True
    )
    json_schema: str | None = Field(None, alias="$schema", description="For editors.")
    checkpoint: Text = Field(description="The folder of the queries' progress and state.")
    trigger: Text | None = Field(
        None, description='The time between batches, "5 seconds"; or "available now".'
    )
    shards: int | None = Field(
        None, ge=1, le=MOST_SHARDS, description="The number of shards of the keys."
    )
    tables: dict[Text, TableForm] = Field(min_length=1)
    queries: dict[Text, QueryForm] = Field(min_length=1)


def form_schema() -> dict[str, Any]:
    """Return the JSON Schema of a pipeline file."""
    generated = PipelineForm.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **generated}
