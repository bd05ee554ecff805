"""When windows of GROUP BY are emitted besides at their end: early, and late.

Source: Flink's ``WindowEmitStrategy``.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.errors import OptionError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.settings import value

_EARLY, _LATE = "table.exec.emit.early-fire", "table.exec.emit.late-fire"
ALLOW_LATENESS = "table.exec.emit.allow-lateness"


@dataclass(frozen=True)
class Emission:
    """When windows are emitted.

    Flink writes it only into the description of the node. To run the plan, set the options again.

    Attributes:
        early: ms between the results of a window before its end, by the clock; 0: with every change; None: no such
            results.
        late: the same after its end.
        lateness: ms of event time for which a window is kept after its end, if late results are emitted.
        event_time: whether the windows use event time. Windows of processing time have no late rows.
    """

    early: int | None = None
    late: int | None = None
    lateness: int = 0
    event_time: bool = True

    @classmethod
    def of(cls, options: Mapping[str, str], event_time: bool) -> Emission | None:
        """The emission that the options set; None for results at the ends of windows alone.

        Raises:
            OptionError: OPT005, the delay of early or late results is not given; OPT105, for an option that has no
                valid value.
        """
        early, late = (_delay(options, key) for key in (_EARLY, _LATE))
        if early is None and late is None:
            return None
        lateness = 0
        if event_time and late is not None:
            allowed_lateness = value(options, ALLOW_LATENESS)
            lateness = value(options, "table.exec.state.ttl") if allowed_lateness is None else allowed_lateness
        return cls(early, late, lateness, event_time)

    @property
    def updates(self) -> bool:
        """Whether a window may be emitted more than once."""
        return self.early is not None or (self.event_time and self.late is not None)

    @property
    def never_late(self) -> bool:
        """Whether late results are requested, and no window is kept for them."""
        return self.event_time and self.late is not None and not self.lateness

    @property
    def text(self) -> str:
        """``early delay 1000 millisecond, late no delay``."""
        parts = (("early", self.early), ("late", self.late))
        return ", ".join(
            f"{name} delay {delay} millisecond" if delay else f"{name} no delay"
            for name, delay in parts
            if delay is not None
        )


def is_asked_for(options: Mapping[str, str]) -> bool:
    """Whether any window is to be emitted early or late."""
    return any(value(options, f"{key}.enabled") for key in (_EARLY, _LATE))


def _delay(options: Mapping[str, str], key: str) -> int | None:
    if not value(options, f"{key}.enabled"):
        return None
    delay: int | None = value(options, f"{key}.delay")
    if delay is None:
        raise OptionError("OPT005", key=f"{key}.delay", switch=f"{key}.enabled")
    return delay
