"""The licences of the packages that stateplan needs at run time: ``python -m scripts.licences`` lists them.

``--extras`` prints the extras of stateplan instead, as pip reads them.
The list follows the requirements of stateplan with all extras except ``dev``, in this environment. It ends with an
error if a licence is not in the allow list.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSD License",
        "CC0-1.0",
        "ISC",
        "MIT",
        "PSF-2.0",
        "Zlib",
    }
)
"""Permissive licences, as SPDX identifiers. Older metadata does not say which of the BSD licences it means."""

EXCEPTIONS = {"certifi": "MPL-2.0"}
"""Other licences, by package. certifi is a list of certificates, which httpx reads. stateplan contains no copy."""

_SPDX = {
    "Apache Software License": "Apache-2.0",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
"""Classifiers and other spellings of older metadata."""


def extras() -> list[str]:
    """The extras of stateplan, except ``dev``."""
    return sorted(set(distribution("stateplan").metadata.get_all("Provides-Extra", [])) - {"dev"})


def runtime_packages() -> dict[str, Distribution]:
    """The packages that stateplan needs with every extra except ``dev``, and those that these need, by name."""
    packages: dict[str, Distribution] = {}
    visited: set[tuple[str, str]] = set()
    pending = [("stateplan", extra) for extra in ("", *extras())]
    while pending:
        place = pending.pop()
        if place in visited:
            continue
        visited.add(place)
        packages[place[0]] = package = distribution(place[0])
        for line in package.requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": place[1]}):
                needed = canonicalize_name(requirement.name)
                pending += [(needed, extra) for extra in ("", *requirement.extras)]
    for name in ("stateplan", "editables"):  # an editable install adds the second
        packages.pop(name, None)
    return dict(sorted(packages.items()))


def licence(package: Distribution) -> str:
    """The licence of a package as an SPDX expression, or the words of its metadata where these are no known licence."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier", []) if line.startswith("Lic")]
    if classifiers:
        return " OR ".join(_SPDX.get(text, text) for text in classifiers)
    text = str(metadata.get("License") or "no licence")
    return _SPDX.get(text, text)


def is_allowed(expression: str) -> bool:
    """Whether each licence of one alternative of an SPDX expression without brackets is in the allow list."""
    return any(all(part in ALLOWED for part in re.split(" AND ", choice)) for choice in expression.split(" OR "))


def refused() -> Iterator[str]:
    """A line for each package whose licence is neither in the allow list nor an exception."""
    for name, package in runtime_packages().items():
        text = licence(package)
        if not is_allowed(text) and EXCEPTIONS.get(name) != text:
            yield f"{name} {package.version}: {text}"


def main() -> None:
    if sys.argv[1:] == ["--extras"]:
        print(",".join(extras()))
        return
    for name, package in runtime_packages().items():
        print(f"{name:24} {package.version:14} {licence(package)}")
    if lines := list(refused()):
        sys.exit("not in ALLOWED of scripts/licences.py:\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
