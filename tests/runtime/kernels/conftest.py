"""Kernels are compared with their references on more examples than other properties."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

_MANY = "kernels"

settings.register_profile(_MANY, settings.get_profile("ci"), max_examples=60)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule() -> Generator[None, pytest.Module, pytest.Module]:
    """60 examples of each property where ``CI=true``, unless a profile is asked for: ``thorough`` tries 2000.

    A property has the profile that is loaded when its module is imported.
    """
    module = yield
    if os.environ.get("CI") == "true" and "HYPOTHESIS_PROFILE" not in os.environ:
        before = settings.get_current_profile_name()
        settings.load_profile(_MANY)
        module.obj  # noqa: B018 - imports it
        settings.load_profile(before)
    return module
