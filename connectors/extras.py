"""Libraries that only some connectors and formats need, which users install as extras of stateplan."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from stateplan.common.errors import OptionError


def require(extra: str, module: str, user: str) -> Any:
    """A module of a library that an extra of stateplan installs.

    Args:
        extra: its name, as in ``pip install 'stateplan[kafka]'``.
        module: to import.
        user: what needs it, for the message: ``the connector 'kafka'``.

    Raises:
        OptionError: OPT122, the library is not installed, or cannot be loaded.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] == package:
            raise OptionError("OPT122", user=user, extra=extra, problem="is not installed") from error
        raise OptionError("OPT122", user=user, extra=extra, problem=f"cannot be loaded: {error}") from error
