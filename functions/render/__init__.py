"""How functions run: one module per family; importing this package fills the registry of renderings.

Import it where expressions are run, not where plans are made: it imports polars.
"""

from stateplan.functions.render import (  # noqa: F401  the registry is filled by importing them
    arithmetic,
    collection,
    comparison,
    conditional,
    digests,
    json,
    mathematical,
    random,
    regex,
    temporal,
    text,
    user,
)
from stateplan.functions.render.base import NOW, RENDERERS, WATERMARK, Check, Renderer

__all__ = ["NOW", "RENDERERS", "WATERMARK", "Check", "Renderer"]
