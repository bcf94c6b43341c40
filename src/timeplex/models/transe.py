"""TransE (Bordes et al. 2013): a relation is a translation from subject to object."""

from typing import Literal

from pydantic import Field

from timeplex.models import base
from timeplex.models.base import Space, register
from timeplex.models.vector import StaticModel, TransEScorer


class Options(base.Options):
    """Settings of TransE."""

    norm: Literal[1, 2] = Field(1, description="The norm of the distance: 1 or 2.")


@register("transe")
class TransE(StaticModel):
    """φ(s, r, o) = −‖s + r − o‖ₚ with real vectors."""

    options_type = Options

    def __init__(self, space: Space, options: Options) -> None:
        super().__init__(space, options, TransEScorer(options.norm))
