"""begin-after-end: a fact that began after it ended, in the source; the reader set its end to its begin."""

from timeplex.auditing.base import Found, Rule, block, register
from timeplex.auditing.case import AuditContext, Repair

SEVERITY = 0.995


@register("begin-after-end")
class BeginAfterEnd(Rule):
    """Nothing ends before it begins."""

    family, says = "span", "the source says that the fact ends before it begins"

    def find(self, case: AuditContext) -> Found:
        """One finding a repaired row whose fact is found; the others are counted in the notes."""
        rows, source = case.repaired
        found = rows >= 0
        of = source[found]
        if not found.all():
            case.notes.append(f"{(~found).sum():,} rows that begin after they end could not be traced to a fact.")
        low, high = case.evidence.plausible

        def message(place: int) -> str:
            return f"The source says that it begins {case.date(of.begin[place])} and ends {case.date(of.end[place])}."

        def suggestion(place: int) -> str:
            first, last = int(of.end[place]), int(of.begin[place])
            swapped = low <= first <= last <= high
            return f"swap: {case.span(first, last)}?" if swapped else f"check the end {case.date(first)}"

        def repairs(place: int) -> list[Repair]:
            first, last = int(of.end[place]), int(of.begin[place])
            row = int(rows[found][place])
            return [case.otherwise(row, begin=first, end=last)] if low <= first <= last <= high else []

        return self.accuse(block(rows[found], SEVERITY, message, suggestion, repairs=repairs))
