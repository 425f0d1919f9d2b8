"""The style sheet, header and frame of every page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

STYLE = """
:root{color-scheme:light dark;--paper:#fbfaf7;--card:#fff;--ink:#1d2327;--soft:#5c666d;
--rule:#e3e0d8;--EWR:#2b67a8;--JFK:#b5541f;--LGA:#1f7f6b;--heat:#b5541f;--full:#76828a;
--early:#2b67a8;--late:#b5541f;--good:#1f7f6b;--bad:#b3261e;--on:#fff}
@media (prefers-color-scheme:dark){:root{--paper:#14181b;--card:#1b2024;--ink:#e8e6e1;
--soft:#9aa4ab;--rule:#2e353a;--EWR:#74aee8;--JFK:#ee9a63;--LGA:#5cc3ab;--heat:#ee9a63;
--full:#8b979f;--early:#74aee8;--late:#ee9a63;--good:#5cc3ab;--bad:#ff8a80;--on:#14181b}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);-webkit-text-size-adjust:100%;
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
main{max-width:1040px;margin:0 auto;padding:48px 24px 72px}
h1{font-size:clamp(1.75rem,4.4vw,2.5rem);line-height:1.15;letter-spacing:-.02em;margin:0 0 12px;
font-weight:650;text-wrap:balance}
h2{font-size:1.25rem;line-height:1.3;letter-spacing:-.01em;margin:0 0 6px;font-weight:620}
h3{font-size:1rem;margin:28px 0 8px;font-weight:600}
p{margin:0 0 16px;max-width:70ch;color:var(--soft)} p strong{color:var(--ink);font-weight:600}
.lede{font-size:1.08rem} section{margin-top:56px}
code{font:0.9em ui-monospace,"SF Mono",Menlo,"DejaVu Sans Mono",monospace;color:var(--ink)}
.verdict{border-left:4px solid var(--good);padding:4px 0 4px 16px;margin:24px 0 0}
.verdict.bad{border-color:var(--bad)} .verdict p{margin:0;color:var(--ink);max-width:none}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(180px,1fr));gap:1px;margin:32px 0 0;
background:var(--card);border:1px solid var(--rule);border-radius:10px;overflow:hidden}
dl div{box-shadow:0 0 0 1px var(--rule);padding:14px 18px;display:flex;
flex-direction:column-reverse;justify-content:flex-end}
dt{font-size:.84rem;color:var(--soft);line-height:1.35}
dd{margin:0;font-size:1.5rem;font-weight:620;letter-spacing:-.02em;
font-variant-numeric:tabular-nums;line-height:1.3}
.scroll{overflow-x:auto;margin:16px 0 4px} .scroll:focus-visible,summary:focus-visible{
outline:2px solid var(--EWR);outline-offset:4px}
svg{display:block;width:100%;min-width:680px;height:auto;font-size:13px}
svg text{fill:var(--ink);font-variant-numeric:tabular-nums} svg .small{fill:var(--soft);
font-size:12px} svg .label{font-size:14px} svg .name{font-weight:600;font-size:14px}
svg .cell{font-size:11.5px;fill:var(--ink)} svg .strong{fill:var(--on)}
.grid{stroke:var(--rule)} .axis{stroke:var(--soft);stroke-opacity:.6}
.line{fill:none;stroke-width:2.2;stroke-linejoin:round} .thin{fill:none;stroke-width:1.1}
.area{stroke:none;fill-opacity:.55} .heat{fill:var(--heat)}
.line.EWR,.thin.EWR{stroke:var(--EWR)} .line.JFK,.thin.JFK{stroke:var(--JFK)}
.line.LGA,.thin.LGA{stroke:var(--LGA)}
.area.EWR,svg .name.EWR{fill:var(--EWR)} .area.JFK,svg .name.JFK{fill:var(--JFK)}
.area.LGA,svg .name.LGA{fill:var(--LGA)}
.bar.early,svg .name.early{fill:var(--early)} .bar.late,svg .name.late{fill:var(--late)}
.bar.full,svg .name.full{fill:var(--full)}
table{border-collapse:collapse;width:100%;font-size:.92rem;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:600;color:var(--soft);font-size:.84rem}
th,td{padding:7px 18px 7px 0;border-bottom:1px solid var(--rule);white-space:nowrap}
td.number,th.number{text-align:right}
details{margin:8px 0 0} summary{cursor:pointer;color:var(--soft);font-size:.88rem;
padding:4px 0;width:max-content}
details .scroll{max-height:340px;overflow:auto}
footer{margin-top:64px;padding-top:16px;border-top:1px solid var(--rule);font-size:.88rem}
@media (max-width:600px){main{padding:28px 16px 48px} section{margin-top:44px}
dl{grid-template-columns:1fr 1fr} dl div{padding:12px 14px} dd{font-size:1.25rem}}
@media print{body{background:#fff} details{display:none}}
"""


def build_page(title: str, body: str) -> str:
    """Build a self-contained page; neither title nor body is escaped here."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><main>{body}"
        "</main></body></html>\n"
    )


def build_header(
    title: str, lede: str, verdicts: Sequence[tuple[str, bool]], numbers: Iterable[tuple[str, str]]
) -> str:
    """Build the header of a page: its subject, the results of the checks, and the numbers."""
    shown = "".join(f"<p>{'✓' if good else '✗'} {escape(text)}</p>" for text, good in verdicts)
    bad = "" if all(good for _, good in verdicts) else " bad"
    verdict = f'<div class="verdict{bad}" role="status">{shown}</div>' if shown else ""
    listed = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in numbers
    )
    return (
        f'<header><h1>{escape(title)}</h1><p class="lede">{escape(lede)}</p>{verdict}'
        f"<dl>{listed}</dl></header>"
    )
