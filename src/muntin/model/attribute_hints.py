"""Hints for attributes, items and lengths that users of other libraries ask our objects for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from muntin.model.close_names import find_close_name

WordsOf = Literal[
    "windows", "query", "running", "source", "app", "topic", "agent", "table", "state"
]


def _join(*groups: tuple[str, str]) -> dict[str, str]:
    """Return hints by word, without case and underscores, from words and the hint for them."""
    return {word: hint for words, hint in groups for word in words.split()}


_SUPPRESS = (
    "leave it out, and a window emits once, when it is full; untilTimeLimit(d) is .early(after=d), "
    "and maxRecords(n) is over=n, with stop=True to shut down"
)
_AGGREGATE_FIRST = "say what they compute first: .agg(n=muntin.count())"
_RESULTS = ".results is the frame of a finite input; a stream runs by .start(checkpoint=…)"
_FRAME = "without results= in one process, or with results=muntin.to_memory(), it has .frame()"
_RESTART = "start the windows again with the same checkpoint: it resumes there"
_READ = "a query reads it: muntin.windowed(source, key=…, time=…)"
_IN_OPEN = "write with app.open() as running: running.send(…), or app.run(source)"

_WINDOWS = _join(
    *((name, f"{_AGGREGATE_FIRST}.{name}") for name in ("explain", "rejected", "results", "start")),
    (
        "show display topandas collect plot head tail writestream write schema printschema columns "
        "isstreaming print topolars lazy executeinsert execute describe sinkparquet writeparquet "
        "select withcolumns withcolumn orderby sort sortvalues",
        f"{_AGGREGATE_FIRST}.results",
    ),
    ("groupby keyby groupbykey partitionby", "give windowed(…, key=…)"),
    ("windowall", "leave key= out of windowed(…)"),
    ("sessionwindow", 'write .session("5 minutes")'),
    ("count sum mean aggregate reduce apply process",
     "write .agg(name=…), as in .agg(n=muntin.count())"),
    ("where filter", "give windowed(…, where=…)"),
    ("withwatermark grace withgrace", "give windowed(…, lateness=…) or .late(grace=…)"),
    ("allowedlateness", "write .late(grace=…)"),
    ("sideoutputlatedata", "give .start(rejected=…) a sink: it gets late messages with the reason"),
    ("trigger emit", "write .early(…) and .late(…)"),
    ("withretention retention until", "write .keep(…)"),
    ("suppress", _SUPPRESS),
    (
        "window windowedby windowby",
        "write .tumbling(…), .hopping(…), .sliding(…), .rolling(…), .trailing(…) or .session(…)",
    ),
    ("resample groupbydynamic tumble every", 'write .tumbling("10 minutes") in the place of it'),
    ("hop advanceby slide", "write .hopping(size, slide)"),
    ("cumulate", "write .cumulating(size, step)"),
    ("over rollingmean rollingsum", 'write .rolling("5 minutes").agg(…): a row for each message'),
    ("countwindow countwindowall", "write .tumbling(muntin.rows(100))"),
    ("nlargest nsmallest limit", 'write .top(3, by="price")'),
    ("dropduplicates unique distinct", 'give windowed(…, offset=…), which counts a message once'),
    ("join", "write muntin.join(a, b, on=…, within=…)"),
    ("union", "in SQL write FROM (SELECT … UNION ALL SELECT …); muntin.kafka reads several topics"),
)  # fmt: skip
_QUERY = _join(
    (
        "show display topandas collect head tail limit sample fetch take first sort sortvalues "
        "orderby sortby select withcolumns withcolumn alias rename explode lazy rows iterrows "
        "itertuples info shape dtypes iloc loc values items topolars pl df frame index",
        _RESULTS,
    ),
    (
        "to tostream totable writeto run execute executeinsert sink sinkto addsink listen",
        "write .start(checkpoint=…, results=…), with a sink such as muntin.to_kafka(…)",
    ),
    ("foreach peek foreachbatch mapvalues map subscribe",
     "give .start(results=…) a function of a batch's rows and its number"),
    ("print", "write .start(checkpoint=…, results=muntin.to_print())"),
    (
        "sinkparquet sinkcsv sinkndjson writeparquet writecsv tocsv toparquet tosql writedatabase",
        "write it of .results, or .start(…, results=muntin.to_parquet(…)) of a stream",
    ),
    ("groupby count sum filter where groupbydynamic resample",
     "write windowed(windows, …) for windows over windows, or use .results"),
    ("join", "write muntin.join(a, b, on=…)"),
    ("early late keep tumbling hopping session", "say it before .agg(…)"),
    ("suppress", _SUPPRESS),
    ("describe explainstring", "write .explain()"),
    ("plot", ".results is a frame: write .results.plot(…), as its library does"),
    ("schema columns isstreaming", ".results has it, on Spark of a stream, too"),
    ("printschema", "write .results.printSchema(), on Spark of a stream, too"),
    ("write", "write .results.write, or .start(…, results=…) of a stream"),
    ("writestream", "write .start(checkpoint=…, results=…, every=…, available_now=…)"),
    ("trigger outputmode queryname option name uid",
     "give .start(checkpoint=…, results=…, every=…, name=…, available_now=…)"),
    ("awaittermination wait stop isactive awaitend",
     ".start(checkpoint=…) returns the query, which has .await_end() and .stop()"),
    ("setparallelism", "give .start(…) its shards by windowed(…, shards=…)"),
    ("tomemory", "give it to .start(results=muntin.to_memory())"),
    ("cache persist", "leave it out: .results is a frame, computed once"),
)  # fmt: skip
_RUNNING = _join(
    ("awaittermination wait join result",
     "write .await_end(), or .await_end(60) for a minute at most"),
    ("isactive isrunning running", "write .is_active"),
    ("processallavailable", "write .await_idle()"),
    ("lastprogress recentprogress status state metrics",
     ".progress has the figures; on Spark .query is Spark's own handle"),
    ("id runid query",
     "its .checkpoint and .name identify it; on Spark .query is Spark's own handle"),
    ("exception", ".await_end() raises it"),
    (
        "show results head tail topandas collect plot print read topolars fetch take select df "
        "rows",
        _FRAME,
    ),
    ("cancel close kill terminate", "write .stop(); the next start resumes from the checkpoint"),
    ("start restart resume pause", _RESTART),
    ("cleanup reset", "start with another checkpoint folder to begin anew"),
    ("explain", "the windows have it: write .explain() before .start(…)"),
    ("store getstore", "write muntin.open_state(checkpoint)"),
)  # fmt: skip
_SOURCE = _join(
    (
        "show head tail collect read load frame lazy topandas topolars print describe fetch take "
        "sample limit poll consume todataframe rows",
        f"{_READ}. A frame of a file is polars.read_parquet(…) or the like",
    ),
    ("filter where", "give muntin.windowed(source, where=…)"),
    (
        "select withcolumns withcolumn map mapvalues assign apply drop rename",
        "keys and times may be expressions: muntin.windowed(source, key=pl.col(…)); SQL has views",
    ),
    ("columns dtypes printschema", "write .schema"),
    ("groupby keyby groupbykey groupbydynamic resample", "write muntin.windowed(source, key=…)"),
    (
        "windowed window tumbling hopping session sliding windowedby stream",
        "write muntin.windowed(source, key=…, time=…).tumbling(…)",
    ),
    ("join merge", "write muntin.join(a, b, on=…, within=…)"),
    ("subscribe option options format setstartingoffsets",
     "give the options to the function that makes it, as in muntin.kafka(servers, topic, …)"),
    (
        "withwatermark assigntimestampsandwatermarks withtimestampextractor",
        "give muntin.windowed(source, time=…, lateness=…)",
    ),
    ("close start stop", f"it has no connection of its own; {_READ}"),
)  # fmt: skip
_APP = _join(
    ("main worker start loop runasync execute", _IN_OPEN),
    ("send producer getproducer", _IN_OPEN),
    ("stop close", "close what app.open() or app.run() returns, or use it in a with"),
    ("record", "write a dataclass, or a class of muntin.Record"),
    ("table", 'write app.Table("views", default=int)'),
    ("stream channel dataframe consumer",
     "write @app.agent(app.topic(name)), and loop over its events"),
    ("page web command cli", "an app serves nothing; read its tables in what app.open() returns"),
    ("conf config configfromobject beforestart", "its options are arguments of muntin.App(…)"),
    ("onstarted onstart service", "write @app.task, which runs when the app starts"),
    ("monitor sensors", "what app.open() returns has .counts"),
    ("addsink", "write @app.agent(topic, sink=[…])"),
    ("clearstate reset", "delete the folder of its store, or open it without one"),
)  # fmt: skip
_TOPIC = _join(
    ("declare maybedeclare derive partitions", "create it in Kafka: muntin creates no topics"),
    ("subscribe consume events read", "write @app.agent(topic), and loop over its events"),
    ("publish produce sendsoon", "write running.send(topic, value) of app.open()"),
    ("gettopicname", "write .name"),
)
_AGENT = _join(
    ("start get cancel", _IN_OPEN),
    ("ask asknowait map kvmap join", "send to its topic; what it yields goes to its sinks"),
    ("stream channel", "loop over its argument: async for event in events"),
    ("testcontext", "write with app.open() as running: running.send(…)"),
)
_TABLE = _join(
    ("fetch all range", "write table[key], .items() or .keys()"),
    ("put", "write table[key] = value"),
    ("delete remove", "write del table[key]"),
    ("clear resetstate", "write for key in table.keys(): table.pop(key)"),
    ("topandas frame dataframe topolars", "write pandas.DataFrame(table.items())"),
    ("asansitable show", "write print(dict(table.items()))"),
    ("sum count agg join groupby", "keep the figure in the table, or use muntin.windowed(…)"),
    ("approximatenumentries", "write len(table)"),
    ("get pop setdefault update", "a key has many windows: write table[key].current()"),
    ("onrecover changelogtopic", "leave it out: app.open(store=…) keeps the table"),
    ("relativetonow relativetostream", "first give it windows: .tumbling(…) or .hopping(…)"),
)
_STATE = _join(
    ("get all range fetchall lookup read scan query",
     "write .fetch(key, start=…, end=…); without a key all are read"),
    ("store getstore", "it is the state: write .fetch(key)"),
    ("topandas topolars df show", "write .frame(), or .fetch()"),
)  # fmt: skip


@dataclass(frozen=True)
class _Words:
    """The words that an object is asked for in vain.

    Attributes:
        subject: The object in an error.
        hints: Hints by word, without case and underscores.
        rows: The hint where its rows are asked for.
        own: Its own names, for mistyped ones and for completion; empty for all public names.
    """

    subject: str
    hints: Mapping[str, str]
    rows: str
    own: tuple[str, ...] = field(default=())


_KINDS: Mapping[WordsOf, _Words] = {
    "windows": _Words(
        "windows without .agg(…) have", _WINDOWS, f"{_AGGREGATE_FIRST}.results",
        ("tumbling", "hopping", "cumulating", "sliding", "rolling", "trailing", "session", "sets",
         "early", "late", "full", "keep", "fill", "deltas", "agg", "top"),
    ),
    "query": _Words(
        "a query has", _QUERY, f'write query.results["n"] or len(query.results): {_RESULTS}',
        ("results", "rejected", "start", "explain", "full", "top"),
    ),
    "running": _Words(
        "a running query has", _RUNNING, _FRAME,
        ("await_end", "await_idle", "stop", "progress", "rescale", "is_active", "checkpoint",
         "frame", "name", "watchers", "query"),
    ),
    "source": _Words("a source has", _SOURCE, _READ),
    "app": _Words("an app has", _APP, "its tables are in app.tables",
                  ("Table", "SetTable", "GlobalTable", "topic", "agent", "timer", "crontab", "task",
                   "open", "run", "tables", "name")),
    "topic": _Words("a topic has", _TOPIC, "write @app.agent(topic), and loop over its events"),
    "agent": _Words("an agent has", _AGENT, "what it yields goes to its sinks"),
    "table": _Words("a table has", _TABLE, "write table[key]"),
    "state": _Words("the state of a query has", _STATE, "write .fetch(key)"),
}  # fmt: skip


def describe_missing(name: str, kind: WordsOf) -> str:
    """Describe an attribute that an object lacks, with its counterpart in muntin."""
    words = _KINDS[kind]
    hint = words.hints.get(name.replace("_", "").lower())
    if hint is None:
        close = find_close_name(name, words.own, 0.75)
        hint = f"did you mean .{close}?" if close else None
    return f"{words.subject} no {name!r}" + (f"; {hint}" if hint else "")


class NextWords:
    """Answers the words of other libraries, by which our objects can't do anything."""

    _kind_of_words: ClassVar[WordsOf]

    def __dir__(self) -> list[str]:
        """Return the names that are for users, which notebooks and shells complete."""
        names = sorted(object.__dir__(self))
        own = _KINDS[self._kind_of_words].own
        return [name for name in names if name.startswith("_") or name in own or not own]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(describe_missing(name, self._kind_of_words))


class WithoutRows(NextWords):
    """Answers also those who take an object for its rows."""

    if not TYPE_CHECKING:

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> NoReturn:
            self._refuse_rows("length")

        def __getitem__(self, key: Any) -> NoReturn:
            # Without __iter__, a loop asks for item 0.
            self._refuse_rows("rows to iterate over" if key == 0 else f"item {key!r}")

    def _refuse_rows(self, what: str) -> NoReturn:
        words = _KINDS[self._kind_of_words]
        raise TypeError(f"{words.subject} no {what}; {words.rows}")
