"""Windowed joins: the partners of messages in two streams, and how long a message waits for one.

A pair is emitted once, however many windows hold it. One of these bounds it:

- the distance between the two messages (``Within``);
- a window or a session that holds both (``Together``, ``SessionBound``);
- the version of the left message: the newest right one at its time (``AsOf``);
- the newest right row when the left message arrives (``ByArrival``);
- the key alone, where each change of a side emits the pair again (``Newest``).

Each side has its own watermark, and a message is kept as long as the other side may still bring a
partner.

Source: the Samza SQL window operator design (join windows, message keys); Kafka Streams' outer
joins, except that a message is never emitted both with NULL and with a partner; Flink's versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, get_args

from muntin.model.axis import Axis
from muntin.model.bounds import Bound, ByArrival, SideName, format_windows
from muntin.model.errors import OptionError
from muntin.model.facts import STORED_SHARDS, Fact, QuerySpec, make_fact, names_fact
from muntin.model.inputs import InputSpec
from muntin.model.kinds import Uniform
from muntin.model.policies import DEFAULT_LATE, Each, Every, Firing, FirstThen, Policy, by_change

How = Literal["inner", "left", "right", "full", "semi", "anti"]
StateLayout = Literal["time", "keys"]
JoinNulls = Literal["reject", "unmatched", "group"]
On = str | Sequence[str | tuple[str, str]]

# Names of joins in Spark, pandas and SQL.
_OTHER_HOWS = {
    **dict.fromkeys(("outer", "fullouter"), "full"),
    **{f"{one}outer": one for one in ("left", "right")},
    **{f"left{one}": one for one in ("semi", "anti")},
}
HOWS: tuple[How, ...] = ("inner", "left", "right", "full", "semi", "anti")
SIDES: tuple[SideName, SideName] = ("left", "right")
OTHER: dict[SideName, SideName] = {"left": "right", "right": "left"}
# Beyond this reach, few of the messages in a time range have the key that is searched for.
LARGE = 3_600_000_000


@dataclass(frozen=True)
class Side(InputSpec):
    """One input of a join; its policies define when messages enter the join."""

    windows: Uniform | None = None
    firing: Firing = field(default=Firing(early=Each(), late=Each()), kw_only=True)

    @property
    def policies(self) -> tuple[Policy | None, Policy | None]:
        """The early and late policies: messages may be late in windows that are still open."""
        return self.firing.early, self.firing.late

    @property
    def own_retention(self) -> int | None:
        """Longest time that a message is stored by its own side's clock; ``None`` for no limit."""
        firing = self.firing
        return firing.retention if firing.retention > firing.grace else None

    def facts(self, name: SideName, axis: Axis) -> dict[str, Fact]:
        """Return the facts of this side that the state depends on, by name."""
        windows, firing = self.windows, self.firing
        facts = {
            "on": names_fact(self.keys),
            "windows": Fact(windows, "none" if windows is None else format_windows(windows)),
            "early": make_fact(firing.early),
            "keep rows": Fact(firing.rows, str(firing.rows or "any")),
            **self.input_facts(axis),
        }
        return {f"{name} {label}": fact for label, fact in facts.items()}


@dataclass(frozen=True)
class JoinSpec(QuerySpec):
    """One windowed join.

    Attributes:
        bound: The condition on the positions of partners.
        how: The kind of join, which decides whether messages are emitted without a partner, or once
            for all of their partners.
        layout: Sort order of the state; ``None`` leaves the choice to ``state_layout``.
        shards: Number of shards of the state, if it is known.
        nulls: Treatment of messages with NULL in a key: they are rejected, or have no partner and
            are emitted as unmatched if their side's unmatched messages are, or NULL equals NULL.
        shared_time: Whether both sides share one watermark, the later of the two.
    """

    KIND: ClassVar[str] = "join"

    left: Side
    right: Side
    bound: Bound
    how: How = "inner"
    layout: StateLayout | None = None
    shards: int | None = field(default=None, metadata={"stored": STORED_SHARDS})
    nulls: JoinNulls = "reject"
    shared_time: bool = False

    def __post_init__(self) -> None:
        if self.how not in HOWS:
            meant = _OTHER_HOWS.get(str(self.how).lower().replace("_", ""))
            hint = f'write "{meant}"' if meant else f"give one of {', '.join(HOWS)}"
            raise OptionError("how", self.how, "isn't known", hint)
        if self.layout not in (None, *get_args(StateLayout)):
            hint = f"give one of {', '.join(get_args(StateLayout))}, or leave it out"
            raise OptionError("layout", self.layout, "isn't known", hint)
        if len(self.left.keys) != len(self.right.keys) or not self.left.keys:
            hint = "name at least one column of both sides; a constant one joins by time alone"
            raise OptionError("on", self.left.keys, "compares nothing", hint)
        self._check_nulls()
        if self.shared_time and self.axis == "rows":
            hint = "leave it out: offsets determine which messages may still come"
            raise OptionError("shared_time", True, "isn't for joins in rows", hint)
        if self.shared_time and isinstance(self.bound, ByArrival):
            hint = "leave it out: no side waits for the other"
            raise OptionError("shared_time", True, "isn't for newest joins", hint)
        if self.bound.option:
            self._check_option()
        for side in SIDES:
            self._check(side, self.side(side))
        if self.layout == "keys" and self.sides_to_mark:
            hint = 'leave it out, or write layout="time"'
            text = f"can't find in time what is unmatched in a {self.how} join"
            if self.how == "semi":
                # It is looked up by its position, to be marked, and isn't emitted a second time.
                text = "can't mark who has a partner, which a semi join emits once"
            raise OptionError("layout", self.layout, text, hint)

    def _check(self, name: SideName, side: Side) -> None:
        if side.firing.over is not None:
            value, hint = f"{side.firing.over.windows} on the {name}", "leave it out"
            raise OptionError("over", value, "isn't for joins: each message is let in", hint)
        for option, policy in (("early", side.firing.early), ("late", side.firing.late)):
            least = isinstance(policy, Every) and policy.least > 1
            if least or by_change(policy) or isinstance(policy, FirstThen):
                hint = f"give {option}(each=True) or {option}(every=DURATION)"
                raise OptionError(option, f"{policy} on the {name}", "isn't for joins", hint)
        if side.firing.fill is not None:
            hint = "fill the windows of what is joined, in an aggregation before it"
            raise OptionError("fill", f"{side.firing.fill} on the {name}", "isn't for joins", hint)
        if not side.firing.repeat:
            text = "isn't for joins: a pair is emitted once"
            raise OptionError("repeat", f"False on the {name}", text, "leave out full()")
        self.bound.check_policies(name, side.firing)
        # ``Side.own_retention`` would read it as unset, and store messages without a limit.
        side.check_input(self.axis, f" on the {name}")
        rows = side.firing.rows
        if rows is not None and (self.axis == "rows" or self.layout == "keys"):
            hint = 'leave it out; .keep(DURATION) bounds time, layout="time" goes with rows='
            raise OptionError("rows", f"{rows} on the {name}", "can't be counted here", hint)
        if self.axis == "rows" and side.offset is None:
            hint = 'give windowed(…, offset=("partition", "offset"))'
            raise OptionError("within", self.bound, f"needs offsets on the {name}", hint)
        if self.axis == "time" and side.time is None:
            hint = "give windowed(…, time=…)"
            raise OptionError("time", None, f"is missing on the {name}", hint)
        if side.windows is not None and side.windows.axis != self.axis:
            text = f"isn't measured in {self.axis} as the join is"
            raise OptionError("windows", f"{side.windows} on the {name}", text, "use one axis")

    def _check_nulls(self) -> None:
        if self.nulls not in get_args(JoinNulls):
            hint = 'give "reject"; "unmatched" to emit NULL keys without a partner; or "group"'
            raise OptionError("nulls", self.nulls, "isn't a treatment of NULL keys", hint)
        if self.nulls == "reject":
            return
        if self.nulls == "group":
            if not self.bound.has_range:
                text = "isn't for this join: only within= and windows let NULL equal NULL"
                raise OptionError("nulls", self.nulls, text, "leave it out")
            return
        if not self.outer_sides:
            text = f"isn't for {self.how} joins, which emit nothing unmatched"
            raise OptionError("nulls", self.nulls, text, "leave it out")
        if self.bound.no_nulls:
            raise OptionError("nulls", self.nulls, self.bound.no_nulls, "leave it out")

    def _check_option(self) -> None:
        """Refuse what contradicts the option that asks for the bound."""
        bound, option = self.bound, self.bound.option
        if self.how not in bound.hows:
            raise OptionError("how", self.how, f"isn't for {option} joins", bound.hows_hint)
        if self.layout is not None:
            text = f"isn't for {option} joins, whose rows lie by keys"
            raise OptionError("layout", self.layout, text, "leave it out")
        for name in SIDES:
            if (windows := self.side(name).windows) is not None:
                text = f"on the {name} bound a pair as {option} does"
                raise OptionError("windows", windows, text, "leave one of them out")
            if bound.revises and (offset := self.side(name).offset) is not None:
                text = f"on the {name} isn't for each_change joins, where the revision says it"
                raise OptionError("offset", offset, text, "leave it out")
        times = self.left.time, self.right.time
        pairs = list(zip(self.left.keys, self.right.keys, strict=True))
        if bound.revises and times not in pairs:
            hint = 'compare them, too: on=["k", "window_start", "window_end"]'
            raise OptionError("each_change", True, f"needs the times {times} among on", hint)

    @property
    def axis(self) -> Axis:
        """The axis that the distance of partners is measured on."""
        return self.bound.axis

    @property
    def lag(self) -> int | None:
        """Greatest time by which a row trails rows emitted before it, if messages are within grace.

        A message is at most as late as its side accepts, and its partner lies within reach of it.
        ``None`` where the reach isn't a time, or a policy on the wall clock lets messages in. For
        ``as_of`` and ``newest`` joins it refers to the time of the left side.
        """
        firings = [self.side(name).firing for name in SIDES]
        slow = any(isinstance(p, Every) for f in firings for p in (f.early, f.late))
        if self.axis == "rows" or slow:
            return None
        return self.bound.find_lag(
            [self.side(name).lateness + self.side(name).firing.grace for name in SIDES]
        )

    @property
    def sides_to_mark(self) -> tuple[SideName, ...]:
        """The sides for which the state records which messages have a partner."""
        if self.how == "full":
            return SIDES
        if self.how == "inner":
            return ()
        return ("right",) if self.how == "right" else ("left",)

    @property
    def outer_sides(self) -> tuple[SideName, ...]:
        """The sides whose unmatched messages are emitted."""
        return () if self.how == "semi" else self.sides_to_mark

    def list_required_keys(self, name: SideName) -> tuple[str, ...]:
        """Return the keys of a side in which NULL rejects a message."""
        is_emitted = self.nulls == "unmatched" and name in self.outer_sides
        return () if is_emitted or self.nulls == "group" else self.side(name).keys

    def side(self, name: SideName) -> Side:
        """Return one of the inputs."""
        return self.left if name == "left" else self.right

    def with_side(self, name: SideName, side: Side) -> JoinSpec:
        """Return this join with another input on one side."""
        return replace(self, left=side) if name == "left" else replace(self, right=side)

    @property
    def state_layout(self) -> StateLayout:
        """Sort order of the state: ``time``, then keys; or ``keys``, then time.

        Keys come first where a search by time would scan many windows, or a large one, for few
        partners.

        Source: the message-key matrix of the Samza design.
        """
        if self.layout is not None:
            return self.layout
        if not self.bound.has_range:
            return "keys"
        if self.left.firing.rows is not None or self.right.firing.rows is not None:
            return "time"
        large = self.axis == "time" and self.bound.reach >= LARGE
        return "keys" if large and not self.sides_to_mark else "time"

    @property
    def result_keys(self) -> tuple[str, ...] | None:
        """The keys that identify a pair with its window; ``None`` if pairs are emitted once."""
        if not self.bound.revises:
            return None
        return tuple(key for key in self.left.keys if key not in ("window_start", "window_end"))

    @property
    def title(self) -> str:
        """The kind of the join and its bound, in words."""
        return f"{self.how} join {self.bound}"

    def facts(self) -> dict[str, Fact]:
        """Return the facts of the join and of both sides, by name."""
        facts = {"join": make_fact(self.how), "partners": make_fact(self.bound)}
        facts["layout"] = make_fact(self.state_layout)
        if self.shared_time:
            facts["watermark"] = Fact(True, "one of both sides")
        if self.outer_sides or self.nulls == "group":
            facts["nulls"] = make_fact(self.nulls)
        if self.shards is not None:
            facts["shards"] = make_fact(self.shards)
        return facts | self.left.facts("left", self.axis) | self.right.facts("right", self.axis)

    def free(self, then: JoinSpec) -> set[str]:
        """Return the facts that may change: idle time, watermarks, unused zones and NULL keys.

        NULL keys may be accepted from now on, since rejected messages are in no result. Once they
        are accepted, they can't be rejected again.
        """
        sides = ((name, self.side(name).free_of_input(then.side(name))) for name in SIDES)
        free = {f"{name} {fact}" for name, free_facts in sides for fact in free_facts}
        return free | ({"nulls"} if then.nulls == "reject" else set())


def make_pairs(on: On) -> list[tuple[str, str]]:
    """Return the columns that must be equal, as pairs of a left and a right name.

    Example:
        >>> make_pairs(["id", ("city", "place")])
        [('id', 'id'), ('city', 'place')]
    """
    columns = [on] if isinstance(on, str) else list(on)
    pairs = [(name, name) if isinstance(name, str) else (name[0], name[1]) for name in columns]
    for left, right in pairs:
        if pairs.count((left, right)) > 1:
            name = left if left == right else f"{left} = {right}"
            raise OptionError("on", name, "is named twice", "name it once")
    return pairs


def set_default_policies(firing: Firing) -> Firing:
    """Return the policies of a side with the defaults of joins: each message, early and late."""
    early: Policy = firing.early or Each()
    late: Policy = Each() if firing.late is DEFAULT_LATE else firing.late
    return replace(firing, early=early, late=late)
