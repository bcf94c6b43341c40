"""DistMult (Yang et al. 2015): a relation weighs the agreement of subject and object, feature by feature."""

from timeplex.models.base import Options, Space, register
from timeplex.models.vector import DistMultScorer, StaticModel


@register("distmult")
class DistMult(StaticModel):
    """φ(s, r, o) = Σ_d s[d] · r[d] · o[d] with real vectors; symmetric in s and o."""

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options, DistMultScorer())
