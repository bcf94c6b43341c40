"""Findings as one HTML page: nothing is loaded from elsewhere, nothing in it runs, every text is escaped.

What a browser would act upon without a tag (a turned direction of writing), or what nobody sees, is written out.
"""

from pathlib import Path
from typing import Any

from timeplex import drawing
from timeplex.auditing.base import says
from timeplex.auditing.findings import Findings
from timeplex.drawing import Axis, Bar, escape
from timeplex.files import write_whole
from timeplex.kb import dates, spans
from timeplex.kb.facts import TemporalKB

MOST = 1000
"""The most facts on a page: who has more reads the table."""

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #b3261e; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; }
p.lead { margin-top: 0; opacity: .8; }
table { border-collapse: collapse; margin: 1.5rem 0; }
td, th { text-align: left; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem; margin: .75rem 0; }
article h2 { font-size: 1.05rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
article h2 span { float: right; font-variant-numeric: tabular-nums; color: var(--accent); margin-left: 1rem; }
article h2 small { opacity: .6; margin-right: .5rem; }
.bar { height: 4px; background: var(--soft); border-radius: 2px; margin-bottom: .6rem; }
.bar i { display: block; height: 4px; background: var(--accent); border-radius: 2px; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .15rem .75rem; margin: .5rem 0 0; overflow-wrap: anywhere; }
dt { opacity: .6; }
dd { margin: 0; }
code { background: var(--soft); padding: 0 .3rem; border-radius: .25rem; }
"""


def page(findings: Findings, most: int = MOST) -> str:
    """The page of the first `most` suspicious facts."""
    title = f"Audit of {findings.name}"
    shown = min(findings.suspicious, most)
    told = f"{findings.suspicious:,} suspicious facts of {findings.facts:,}"
    if findings.resolved is not None:
        told += f" that were not told before; {findings.resolved:,} earlier findings are gone"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{escape(title)}</title><style>{STYLE}{drawing.STYLE}</style></head><body>",
            f'<h1>{escape(title)}</h1><p class="lead">{told}, the most suspicious first.</p>',
            _rules(findings),
            *(f"<p>{escape(note)}</p>" for note in findings.notes),
            *_articles(findings, most),
            f"<p>The first {shown:,} of {findings.suspicious:,}.</p>" if shown < findings.suspicious else "",
            "</body></html>\n",
        ]
    )


def fragment(findings: Findings, most: int = 5) -> str:
    """The first few suspicious facts as a part of a page."""
    head = f"<p><strong>{findings.suspicious:,} suspicious facts of {findings.facts:,}</strong>"
    style = f"<style>{drawing.STYLE}</style>"
    return f'<div class="tp">{style}{head} in {escape(findings.name)}</p>{"".join(_articles(findings, most))}</div>'


def write_page(findings: Findings, path: Path) -> None:
    """Write the page; it appears whole or not at all."""
    write_whole(path, page(findings).encode())


def _rules(findings: Findings) -> str:
    if len(findings) == 0:
        return "<p>Nothing was found.</p>"
    rows = "".join(
        f'<tr><td>{escape(rule)}</td><td class="number">{number:,}</td><td>{escape(says(rule))}</td></tr>'
        for rule, number in findings.counts().items()
    )
    return f"<table><tr><th>rule</th><th>findings</th><th>what it means</th></tr>{rows}</table>"


def _articles(findings: Findings, most: int) -> list[str]:
    """One article a fact, with all its findings."""
    by_fact: dict[int, list[dict[str, Any]]] = {}
    where = dict[int, int]()
    for place, row in enumerate(findings.frame.iter_rows(named=True)):
        if row["rank"] not in by_fact and len(by_fact) == most:
            break
        by_fact.setdefault(row["rank"], []).append(row)
        where[row["rank"]] = int(findings.rows[place])
    involved = findings.involved()
    return [_article(rows, _picture(findings, where[rank], involved)) for rank, rows in by_fact.items()]


def _picture(findings: Findings, row: int, involved: dict[int, list[int]]) -> str:
    """A fact and the others that its findings involve, on one axis; nothing if the findings do not know their KB."""
    if findings.case is None:
        return ""
    kb = findings.case.kb
    others = [other for other in dict.fromkeys(involved.get(row, [])) if other != row]
    bars = [_bar(kb, row, "suspicious"), *(_bar(kb, other, "known") for other in others)]
    instants = [each for bar in bars for each in (bar.begin, bar.end) if each is not None]
    if not instants:
        return ""
    margin = max(1, (max(instants) - min(instants)) // 25)
    low, high = min(instants) - margin, max(instants) + margin
    return drawing.tracks(bars, Axis(low, high, dates.ticks(low, high, kb.granularity)), "The facts involved")


def _bar(kb: TemporalKB, row: int, kind: drawing.Kind) -> Bar:
    facts, names = kb.facts, kb.entities
    begin, end = int(facts.begin[row]), int(facts.end[row])
    span = dates.write_spans([(begin, end)], kb.granularity)[0]
    triple = (
        f"{names.label(int(facts.s[row]))} {kb.relations.label(int(facts.r[row]))} {names.label(int(facts.o[row]))}"
    )
    first, last = None if begin == spans.OPEN_BEGIN else begin, None if end == spans.OPEN_END else end
    return Bar(f"{escape(triple)} <small>{escape(span)}</small>", first, last, span, kind)


def _article(rows: list[dict[str, Any]], picture: str) -> str:
    fact = rows[0]
    head = (
        f"<h2><span>{fact['suspicion']:.2f}</span><small>{fact['rank']}</small>{escape(fact['fact'])}</h2>"
        f'<div class="bar"><i style="width:{100 * fact["suspicion"]:.0f}%"></i></div>'
    )
    place = "" if fact["line"] is None else f"<p>{escape(Path(fact['file']).name)}, line {fact['line']:,}</p>"
    return f"<article>{head}{place}{''.join(_finding(row) for row in rows)}{picture}</article>"


def _finding(row: dict[str, Any]) -> str:
    parts = [(row["rule"], row["message"]), ("suggestion", row["suggestion"])]
    if row["support"] is not None:
        parts.append(("holds in", f"{row['support']} cases"))
    if row["others"]:
        parts.append(("see also", row["others"]))
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in parts) + "</dl>"
