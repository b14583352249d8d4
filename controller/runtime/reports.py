"""Writes what the core wants a person to read, and keeps repetition out of the log.

It decides only how often: the same report is written once a minute, and then says how often it came meanwhile.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from controller.core.commands import Report, Severity
from controller.core.events import Event

QUIET_S = 60.0
# A storm of reports that are all different must not grow memory; the oldest are forgotten first.
_REMEMBERED = 4096


@dataclass(slots=True)
class _Seen:
    written_at_s: float
    suppressed: int = 0


class Reports:
    """`clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: OrderedDict[Report, _Seen] = OrderedDict()
        self._log = structlog.get_logger("controller")

    def write(self, report: Report) -> Iterable[Event]:
        """Performer of Report: writes it, unless the same one was written within the last minute."""
        seen = self._seen.get(report)
        now_s = self._clock()
        if seen is not None and now_s - seen.written_at_s < QUIET_S:
            seen.suppressed += 1
            return ()
        fields = dict(report.fields)
        if seen is not None and seen.suppressed:
            fields["repeated"] = str(seen.suppressed)
        self._remember(report, now_s)
        self._write(report, fields)
        return ()

    def _remember(self, report: Report, now_s: float) -> None:
        self._seen[report] = _Seen(now_s)
        self._seen.move_to_end(report)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def _write(self, report: Report, fields: dict[str, str]) -> None:
        method = {Severity.INFO: self._log.info, Severity.WARNING: self._log.warning, Severity.ERROR: self._log.error}
        # A field may be called like one of structlog's own arguments.
        method[report.severity](report.message, **{f"{k}_" if k == "event" else k: v for k, v in fields.items()})

    def warn(self, message: str, **fields: str) -> None:
        """The same for the shell's own findings."""
        self.write(Report(Severity.WARNING, message, tuple(fields.items())))
