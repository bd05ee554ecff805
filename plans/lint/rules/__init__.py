"""The rules, one module each, named by their codes. A module in this folder is a rule; nothing else lists it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from stateplan.plans.lint.rule import Rule

__all__ = ["all_rules"]


@cache
def all_rules() -> dict[str, Rule]:
    """Code to rule, in the order of the codes."""
    found: dict[str, Rule] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        loaded = importlib.import_module(f"{__name__}.{module}")
        (rule,) = (
            value
            for value in vars(loaded).values()
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == loaded.__name__
        )
        found[rule.CODE] = rule()
    return found
