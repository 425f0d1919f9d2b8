"""The Markdown report: a table for each case with targets and results, and the losses."""

from __future__ import annotations

from typing import Any

from benches.summary import Document

THROUGHPUT = (
    "| peer | state | rows | rounds | steady rows/s | whole run rows/s | tenth s | full s |"
    " start-up s | peak MB | muntin ÷ peer | target |"
)
SECONDS = "| peer | state | rounds | figures | peak MB | muntin ÷ peer | target |"


def markdown(results: dict[str, Document]) -> str:
    """Return the whole report."""
    parts = [
        "# Benchmark results\n",
        "A figure counts only where row count and checksum equal DuckDB's. Figures are medians,"
        " ratios are taken within a round. Steady state is a full run less a run of a tenth of"
        " the rows; the whole-run figure includes every start-up. Peak memory is resident memory"
        " summed over all processes. A peer that a round left behind by 1.5 times what is"
        " wanted, or that no target names, isn't run in further rounds. DuckDB and Polars see all"
        " rows at once: they are the ceiling, not peers.\n",
    ]
    for name, workload in results.items():
        parts.append(_workload(name, workload))
    return "\n".join(parts)


def _workload(name: str, workload: Document) -> str:
    """Return one workload."""
    machine = workload["machine"]
    lines = [
        f"## {name}: {workload['title']}\n",
        f"{workload['date']}, up to {workload['runs']} rounds, scale {workload['scale']:g},"
        f" {machine['cores']} cores of {machine['processor']}, {machine['memory_gib']:g} GiB.\n",
    ]
    if workload["scale"] != 1:
        lines += ["**A trial on fewer rows, in smaller batches: its ratios prove nothing.**\n"]
    for case_name, case in workload["cases"].items():
        targets = [t for t in workload["targets"] if t["case"] == t["against"] == case_name]
        lines += [f"### {case_name}: {case['title']} ({case['unit']})\n"]
        lines += [*_table(case, {t["peer"]: t for t in targets}), ""]
    lines += _own(workload) + _words(workload)
    return "\n".join(lines)


def _table(case: Document, targets: dict[str, Document]) -> list[str]:
    """Return the table of one case."""
    head = THROUGHPUT if case["measure"] == "throughput" else SECONDS
    columns = head.count("|") - 1
    lines = [head, "|" + " --- |" * columns]
    for name, peer in case["peers"].items():
        if peer["status"] != "ok":
            text = f"**{peer['status']}**: {peer['reason']}".replace("|", "/")
            cells = [name, peer["state"], text] + [""] * (columns - 3)
        elif case["measure"] == "throughput":
            cells = _throughput(name, peer) + _compare(targets.get(name))
        else:
            cells = _seconds(name, peer, case["measure"]) + _compare(targets.get(name))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _throughput(name: str, peer: Document) -> list[str]:
    """Return the cells of a throughput row."""
    medians = peer["median"]
    steady, whole = (_big(medians.get(key)) for key in ("figure", "whole_rate"))
    spent = [_plain(medians.get(key)) for key in ("tenth", "seconds", "start_up")]
    counted = [_big(peer["rows"]), str(len(peer["rounds"]))]
    return [name, peer["state"], *counted, steady, whole, *spent, _big(medians["peak_mb"])]


def _seconds(name: str, peer: Document, measure: str) -> list[str]:
    """Return the cells of a row of seconds."""
    medians = peer["median"]
    if measure == "latency":
        text = f"p50 {_plain(medians['p50'])} s, p99 {_plain(medians['p99'])} s"
    else:
        text = (
            f"median {_plain(medians['batch_median'])} s, worst {_plain(medians['batch_worst'])} s"
        )
    return [name, peer["state"], str(len(peer["rounds"])), text, _big(medians["peak_mb"])]


def _compare(target: Document | None) -> list[str]:
    """Return the cells of the reached ratio and the target."""
    if target is None:
        return ["", ""]
    sign = "≥" if target["at_least"] else "≤"
    bound = f"{sign} {target['bound']:g}"
    if target["ratio"] is None:
        return ["not measured", bound]
    return [f"{_ratio(target)}", f"{bound}: {'reached' if target['reached'] else '**missed**'}"]


def _ratio(target: Document) -> str:
    """Return the ratio, with that of the whole run in brackets."""
    whole = target["whole_ratio"]
    suffix = f" ({whole:.2f} whole)" if whole is not None else ""
    return f"{target['ratio']:.2f}{suffix}"


def _own(workload: Document) -> list[str]:
    """Return the targets between two cases of muntin itself."""
    targets = [t for t in workload["targets"] if t["case"] != t["against"]]
    if not targets:
        return []
    rows = ["| ratio | reached | target |", "| --- | --- | --- |"]
    for target in targets:
        reached, bound = _compare(target)
        rows.append(f"| {target['text'].rpartition(' ')[0][:-2]} | {reached} | {bound} |")
    return [*rows, ""]


def _words(workload: Document) -> list[str]:
    """Return the losses in plain words."""
    lines = []
    for target in workload["targets"]:
        if target["reached"] is False:
            lines.append(f"- Missed: {target['text']}; reached {target['ratio']:.2f}.")
            if target["case"] == target["against"] and _slower(target):
                lines.append(f"  muntin is slower than {target['peer']} here.")
    unmeasured = [t["text"] for t in workload["targets"] if t["reached"] is None]
    lines += [f"- Not measured: {text}." for text in unmeasured]
    if not lines:
        lines = ["- Every target was reached."]
    return ["In plain words:\n", *lines, ""]


def _slower(target: Document) -> bool:
    """Return whether muntin loses outright, not only against its target."""
    return target["ratio"] < 1 if target["at_least"] else target["ratio"] > 1


def _big(value: Any) -> str:
    """Format a large number with spaces between thousands."""
    return "" if value is None else f"{value:,.0f}".replace(",", " ")


def _plain(value: Any) -> str:
    """Format a small number."""
    return "" if value is None else f"{value:.2f}"
