"""ordering: a relation that begins before another in nearly all lives, and here after it (see `patterns.orderings`)."""

from timeplex.auditing.base import Block, Found, Rule, either, register
from timeplex.auditing.case import CERTAIN, AuditContext, Tally, trust
from timeplex.auditing.evidence import LEAST_CASES
from timeplex.auditing.rules.gap import same_subject
from timeplex.patterns.orderings import ENTITIES

CONFIDENCE = 0.98
"""Less than what `patterns.orderings` asks for, since a KB that needs an audit breaks its orderings more often."""


@register("ordering")
class Ordering(Rule):
    """What comes first comes first: bornIn → educatedAt → diedIn. The user's [[ordering]] adds to what is mined."""

    family, says = "dates", "two facts of a subject are in the wrong order"

    def find(self, case: AuditContext) -> Found:
        """Both facts of each pair in the wrong order, by how much each is to blame."""
        blocks: list[Block] = []
        own = {(table["first"], table["second"]) for table in case.own.of("ordering")}
        for first, second in sorted(own):
            rule = f"By your rule {case.relation(first)} comes before {case.relation(second)}"
            blocks += _broken(case, first, second, rule, Tally(CERTAIN))
        for mined in case.orderings:
            if mined.cases < LEAST_CASES or mined.entities < ENTITIES or mined.confidence < CONFIDENCE:
                continue
            if mined.holds == mined.cases or (mined.first, mined.second) in own:
                continue
            rule = f"{case.relation(mined.first)} comes before {case.relation(mined.second)}"
            sure = float(trust(mined.cases - mined.holds, mined.cases))
            blocks += _broken(case, mined.first, mined.second, rule, Tally(sure, mined.holds, mined.cases))
        return self.accuse(*blocks)


def _broken(case: AuditContext, first: int, second: int, rule: str, counts: Tally) -> list[Block]:
    """The pairs that do not obey `first` → `second`."""
    one, other = same_subject(case, first, second)
    late = case.facts.begin[one] > case.facts.begin[other]
    one, other = one[late], other[late]

    def message(place: int) -> str:
        begins = [case.date(case.facts.begin[rows[place]]) for rows in (one, other)]
        return f"{rule}, but here {case.relation(first)} is {begins[0]} and {case.relation(second)} {begins[1]}."

    return either(
        case,
        one,
        other,
        counts,
        message,
        lambda place, row: case.better_date(row),
        lambda place, row: case.better_dates(row),
    )
