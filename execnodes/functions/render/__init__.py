"""How functions run: one module per family; importing this package fills the registry of renderings.

Import it where expressions are run, not where plans are made: it imports polars.
"""

from execnodes.functions.render import arithmetic, comparison, conditional
from execnodes.functions.render.base import NOW, Check, Renderer, is_rendered

__all__ = ["NOW", "Check", "Renderer", "arithmetic", "comparison", "conditional", "is_rendered"]
