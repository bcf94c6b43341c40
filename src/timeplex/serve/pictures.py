"""What is drawn on the pages: facts on one axis, a curve with its evidence, neighbours."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from timeplex import drawing
from timeplex.decisions.journal import Stated, instants_of
from timeplex.drawing import Axis, Bar, Mark, Neighbour
from timeplex.kb import dates, spans
from timeplex.serve.rendering import Row, drawn, environment, link
from timeplex.serve.review import Item
from timeplex.serve.service import Service
from timeplex.text import span

MOST_DECADES = 30
"""From more on, centuries are offered."""


class Pictures:
    """Draws facts as `Service.facts_of` tells them."""

    def __init__(self, service: Service) -> None:
        self.service, self.kb = service, service.kb

    def axis(self, facts: Sequence[Row], window: tuple[int, int] | None = None) -> Axis:
        """An axis on which all facts are seen, or the window that was asked for."""
        instants = [each for fact in facts for each in (fact["first"], fact["last"]) if each is not None]
        if window is not None:
            low, high = window
        elif instants:
            low, high = min(instants), max(instants)
            margin = max(1, (high - low) // 25)
            low, high = low - margin, high + margin
        else:
            timeline = self.service.learned.timeline
            low, high = timeline.first, timeline.last
        return Axis(low, high, dates.ticks(low, high, self.kb.granularity))

    def tracks(self, facts: Sequence[Row], axis: Axis, title: str, me: str = "", first: Sequence[Bar] = ()) -> Markup:
        """Facts as rows on one axis, after `first`; `me` is the entity that a page is about, whose name is left out."""
        parts: Any = environment().get_template("parts.html").module
        bars = [*first]
        for fact in facts:
            kind = "proposed" if fact.get("proposed") else "suspicious" if fact["suspicion"] else "known"
            bars.append(
                Bar(
                    str(parts.fact(fact, me)),
                    fact["first"],
                    fact["last"],
                    span(fact["begin"], fact["end"]),
                    fact.get("kind", kind),
                )
            )
        return drawn(drawing.tracks(bars, axis, title))

    def decades(self, facts: Sequence[Row]) -> list[Row]:
        """The decades in which the facts of an entity lie, with how many begin there; from some on, centuries."""
        unit = self.kb.granularity
        instants = [each for fact in facts for each in (fact["first"], fact["last"]) if each is not None]
        if not instants:
            return []
        years = dates.coarsen(instants, unit, dates.Granularity.YEAR).tolist()
        step = 10 if (max(years) - min(years)) // 10 < MOST_DECADES else 100
        each = sorted({year // step * step for year in years})
        if len(each) < 2:
            return []
        return [{"from": f"{year}", "to": f"{year + step - 1}", "label": f"{year}s"} for year in each[:MOST_DECADES]]

    def graph(self, me: Row, near: Row) -> Markup:
        """An entity with its neighbours."""
        arriving, leaving = list[Neighbour](), list[Neighbour]()
        for each in near["items"]:
            first = each["first"]
            subject = first["subject"]["id"]
            how = first["relation"]["label"]
            how += f" and {each['facts'] - 1} more" if each["facts"] > 1 else f" {span(first['begin'], first['end'])}"
            neighbour = Neighbour(each["label"], link("/entity", id=each["id"]), how)
            (leaving if subject == me["id"] else arriving).append(neighbour)
        title = f"What stands beside {me['label']}: on the left what points at it, on the right what it points at"
        return drawn(drawing.neighbours(me["label"], arriving, leaving, title))

    def curve(self, told: Row) -> Row:
        """The curve of a fact as `Service.when` tells it: the picture, and the points as a table."""
        curve = told["curve"]
        first, width, unit = curve["first"], curve["width"], self.kb.granularity
        points = [(first + width * at, value) for at, value in enumerate(curve["probability"])]
        axis = Axis(first, curve["last"], dates.ticks(first, curve["last"], unit))
        interval = [instants_of([told[side]], self.kb, "begin")[0] for side in ("low", "high")]
        marks = []
        for number, why in enumerate(told["why"], start=1):
            fact = why["fact"]
            instant = fact["first"] if fact["first"] is not None else fact["last"]
            why["number"] = number
            if instant is not None:
                marks.append(Mark(instant, number, f"reason-{number}", why["sentence"]))
        known = [(each["first"], each["last"]) for each in told["known"]]
        labels = [told[name]["label"] for name in ("subject", "relation", "object")]
        title = (
            f"How likely each {unit.value} is for {' '.join(labels)}: most likely {span(told['begin'], told['end'])}, "
            f"the begin between {told['low']} and {told['high']} with 80 %"
        )
        picture = drawing.curve(
            points,
            axis,
            title,
            span=(told["first"], told["last"]),
            interval=(interval[0], interval[1]),
            known=[pair for pair in known if axis.has(*pair)],
            marks=marks,
        )
        written = dates.write([instant for instant, _ in points], unit)
        table = [{"at": text, "probability": value} for text, (_, value) in zip(written, points, strict=True)]
        return {"picture": drawn(picture), "table": table, "width": width}

    def item(self, item: Item) -> Markup:
        """The fact, what it would become, and the other facts involved, on one axis."""
        kinds = {"finding": "suspicious", "hole": "known", "proposal": "asked"}
        facts = [self.as_row(item.fact, kinds[item.kind], item.row)]
        if item.kind != "proposal":
            facts += [self.as_row(way.new, "proposed", None) for way in item.ways if way.new is not None]
        facts += [other | {"kind": "known"} for other in item.others]
        facts += [other | {"kind": "faint"} for other in item.context]
        return self.tracks(facts, self.axis(facts), "The fact, what it would become, and the facts that it goes with")

    def as_row(self, fact: Stated, kind: str, row: int | None) -> Row:
        """A fact by its names as `Service.facts_of` would tell it, to be drawn as `kind`."""
        first, last = (
            instants_of([date], self.kb, side)[0] for date, side in ((fact.begin, "begin"), (fact.end, "end"))
        )
        named = {
            name: {"id": getattr(fact, name), "label": of.labels.get(getattr(fact, name), getattr(fact, name))}
            for name, of in (
                ("subject", self.kb.entities),
                ("relation", self.kb.relations),
                ("object", self.kb.entities),
            )
        }
        ends = {
            "first": None if first == spans.OPEN_BEGIN else first,
            "last": None if last == spans.OPEN_END else last,
        }
        return {**named, **ends, "begin": fact.begin, "end": fact.end, "suspicion": None, "kind": kind, "row": row}
