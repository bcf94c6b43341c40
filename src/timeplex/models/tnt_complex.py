"""TNT-ComplEx and TComplEx (Lacroix et al. 2020): ComplEx with a relation that turns with time."""

from torch import Tensor

from timeplex.models.base import Options, Space, register
from timeplex.models.query_vector import QueryVector, TimeLinearModel, dot, multiply, multiply_conjugate


class _Turning(TimeLinearModel):
    """φ(s, r, o, t) = Re⟨s, ρ(r, t), ō⟩, where the relation ρ at a time is affine in the time vector."""

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        width = 2 * options.dimension
        self.entity = self.table(space.entities, width)
        self.relation = self.table(space.relations, width)
        self.time = self.table(space.instants, width)

    def relation_at(self, r: Tensor, time: Tensor) -> Tensor:
        """ρ(r, t) = r ∘ t."""
        return multiply(self.rows(self.relation, r), time)

    def object_side_with(self, s: Tensor, r: Tensor, time: Tensor) -> QueryVector:
        """s ∘ ρ."""
        return QueryVector(multiply(self.rows(self.entity, s), self.relation_at(r, time)), self.entity)

    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> QueryVector:
        """ρ̄ ∘ o."""
        return QueryVector(multiply_conjugate(self.relation_at(r, time), self.rows(self.entity, o)), self.entity)

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> QueryVector:
        """Re⟨s, r ∘ t, ō⟩ is the dot product of t with conj(s ∘ r) ∘ o."""
        turned = multiply(self.rows(self.entity, s), self.rows(self.relation, r))
        return QueryVector(multiply_conjugate(turned, self.rows(self.entity, o)), self.time)


@register("tcomplex")
class TComplEx(_Turning):
    """φ(s, r, o, t) = Re⟨s, r ∘ t, ō⟩ with complex vectors."""

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [self.rows(self.entity, s), self.relation_at(r, self.rows(self.time, t)), self.rows(self.entity, o)]


@register("tnt-complex")
class TNTComplEx(_Turning):
    """φ(s, r, o, t) = Re⟨s, r ∘ t + r⁰, ō⟩: part of the relation does not depend on time."""

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options)
        self.untimed = self.table(space.relations, 2 * options.dimension)

    def relation_at(self, r: Tensor, time: Tensor) -> Tensor:
        """ρ(r, t) = r ∘ t + r⁰."""
        return super().relation_at(r, time) + self.rows(self.untimed, r)

    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> QueryVector:
        """As TComplEx, and Re⟨s, r⁰, ō⟩ at all times."""
        side = super().time_side(s, r, o)
        return side._replace(constant=lambda: dot(multiply(self.entity[s], self.untimed[r]), self.entity[o]))

    def terms(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> dict[str, Tensor]:
        """Re⟨s, r ∘ t, ō⟩ and Re⟨s, r⁰, ō⟩."""
        subject, object_ = self.entity[s], self.entity[o]
        timed = dot(multiply(subject, multiply(self.relation[r], self.time[t])), object_)
        always = dot(multiply(subject, self.untimed[r]), object_)
        return {"at this time": timed, "at all times": always.expand_as(timed)}

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        return [
            self.rows(self.entity, s),
            multiply(self.rows(self.relation, r), self.rows(self.time, t)),
            self.rows(self.untimed, r),
            self.rows(self.entity, o),
        ]
