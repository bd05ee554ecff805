"""Plans that a gateway keeps, by name. A statement calls them ``plan://NAME``.

Codes: GW019; PLAN errors of the document.
"""

from __future__ import annotations

import re
from pathlib import Path

from stateplan.common.errors import GatewayError, Place, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.plans import storage
from stateplan.plans.document import PlanDocument
from stateplan.session.host import PLAN_SCHEME

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class PlanStore:
    """The plans in a folder, a file each.

    Args:
        folder: the folder of the files; made with the first one.
    """

    folder: Path

    def path(self, name: str, place: Place | None = None) -> Path:
        """The file of a plan, which need not exist. Raises GatewayError GW019 for what is not a name."""
        if not _NAME.fullmatch(name) or name.endswith(".tmp"):
            raise GatewayError("GW019", name=name[:200], place=place)
        return self.folder / f"{name}.json"

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(p.stem for p in self.folder.glob("*.json") if _NAME.fullmatch(p.stem))

    def read(self, name: str) -> str:
        """The text of a plan. Raises GatewayError GW019."""
        try:
            return self.path(name).read_text("utf-8")
        except (OSError, ValueError):
            raise self._no_plan(name) from None

    def write(self, name: str, text: str) -> bool:
        """Keeps a plan; whether there was none of this name.

        Raises:
            GatewayError: GW019, for what is not a name.
            PlanError: for what is not a plan.
        """
        path = self.path(name)
        PlanDocument.parse(text)
        new = not path.exists()
        storage.write_bytes(str(path), text.encode(), overwrite=True)
        return new

    def remove(self, name: str) -> None:
        """Forgets a plan. Raises GatewayError GW019."""
        try:
            self.path(name).unlink()
        except OSError:
            raise self._no_plan(name) from None

    def _no_plan(self, name: str) -> GatewayError:
        return GatewayError("GW019.unknown_plan", name=name, hint=nearest(name, self.names()))

    def public_text(self, text: str) -> str:
        """A message with the names of plans in place of their files."""
        return re.sub(re.escape(f"{self.folder}/") + r"([\w.-]+?)\.json", PLAN_SCHEME + r"\1", text)
