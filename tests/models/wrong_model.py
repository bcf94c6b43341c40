"""Models with one mistake each, of the kind that has been published. The laws must catch them.

Not imported by the tests but run as a user's own file, so that their names stay out of the registry otherwise.
"""

from torch import Tensor

from timeplex.models import register
from timeplex.models.algebra import conjugate, dot, multiply
from timeplex.models.sides import Side
from timeplex.models.timeplex import TimePlex
from timeplex.models.tnt_complex import TNTComplEx


@register("wrong-times")
class WrongTimes(TNTComplEx):
    """The imaginary part of the time query has the wrong sign: times are ranked by another score than the fact's."""

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> Side:
        """Forgets the last conjugation."""
        turning = multiply(multiply(self.entity[s], self.relation[r]), conjugate(self.entity[o]))
        return Side(turning, self.time, dot(multiply(self.entity[s], self.untimed[r]), self.entity[o]))


@register("wrong-subjects")
class WrongSubjects(TimePlex):
    """Subjects meet r instead of r̄."""

    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> Side:
        """Forgets to conjugate the relation between subject and object."""
        side = super().subject_side_with(r, o, time)
        right = multiply(conjugate(self.relation_so[r]), self.entity[o])
        return side._replace(query=side.query - right + multiply(self.relation_so[r], self.entity[o]))
