"""Models with one mistake each, of the kind that has been published. The laws must catch them.

Not imported by the tests but run as a user's own file, so that their names stay out of the registry otherwise.
"""

from torch import Tensor

from timeplex.models import register
from timeplex.models.query_vector import QueryVector, multiply, multiply_conjugate
from timeplex.models.timeplex import TimePlex
from timeplex.models.tnt_complex import TNTComplEx


@register("wrong-times")
class WrongTimes(TNTComplEx):
    """The imaginary part of the time query has the wrong sign: times are ranked by another score than the fact's."""

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> QueryVector:
        """Forgets the last conjugation."""
        turned = multiply_conjugate(self.entity[o], multiply(self.entity[s], self.relation[r]))
        return super().time_side(s, r, o)._replace(query=turned)


@register("wrong-subjects")
class WrongSubjects(TimePlex):
    """Subjects meet r instead of r̄."""

    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> QueryVector:
        """Forgets to conjugate the relation between subject and object."""
        side = super().subject_side_with(r, o, time)
        right = multiply_conjugate(self.relation_so[r], self.entity[o])
        return side._replace(query=side.query - right + multiply(self.relation_so[r], self.entity[o]))
