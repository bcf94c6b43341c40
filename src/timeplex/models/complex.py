"""ComplEx (Trouillon et al. 2016): DistMult with complex vectors, which can tell subject from object."""

from timeplex.models.base import Options, Space, register
from timeplex.models.vector import ComplExScorer, StaticModel


@register("complex")
class ComplEx(StaticModel):
    """φ(s, r, o) = Re⟨s, r, ō⟩ = Re Σ_d s[d] · r[d] · ō[d] with complex vectors."""

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options, ComplExScorer())
