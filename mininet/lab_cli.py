"""The prompt of an interactive lab: Mininet's own, with verbs for what a fabric engineer does to a fabric."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lab_meters import cpu_share, sent_bytes
from lab_namespace import LabError
from mininet.cli import CLI
from roce_traffic import ideal_ring_s, ring_all_reduce, run_traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab_fabric import FabricLab

_TRAFFIC_TIMEOUT_S = 120.0


class LabCli(CLI):  # type: ignore[misc]
    """Reads commands until `exit`; a command's mistake is said and never ends the lab."""

    prompt = "heddle> "

    def __init__(self, lab: FabricLab, stdin: object = None) -> None:
        self._lab = lab
        # Mininet runs the whole session in its constructor.
        super().__init__(lab.net, **({"stdin": stdin} if stdin is not None else {}))

    def do_cut(self, line: str) -> None:
        """cut A B [INDEX]: takes the cable between two switches down."""
        self._say(lambda: self._on_cable(self._lab.cut_link, line))

    def do_restore(self, line: str) -> None:
        """restore A B [INDEX]: brings it up again."""
        self._say(lambda: self._on_cable(self._lab.restore_link, line))

    def do_announce(self, _line: str) -> None:
        """announce: every host sends gratuitous ARP."""
        self._say(self._lab.announce_hosts)

    def do_loads(self, line: str) -> None:
        """loads [SECONDS]: what every port between switches sends, in Mbit/s, and the processors' share."""
        self._say(lambda: self._loads(float(line or 1)))

    def do_ring(self, line: str) -> None:
        """ring BYTES [QUEUE_PAIRS]: a ring all-reduce over all hosts in their order; other work waits meanwhile."""
        self._say(lambda: self._ring(line))

    def _say(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (LabError, ValueError) as error:
            self._print(str(error))

    def _print(self, text: str) -> None:
        self.stdout.write(text + "\n")

    def _on_cable(self, verb: Callable[[str, str, int], None], line: str) -> None:
        words = line.split()
        if len(words) not in (2, 3):
            raise LabError("name the two switches, and the cable's index when there are several")
        verb(words[0], words[1], int(words[2]) if len(words) == 3 else 0)

    def _loads(self, seconds: float) -> None:
        before, cpu = self._lab.counters(), self._lab.cpu()
        time.sleep(seconds)
        sent, share = sent_bytes(before, self._lab.counters()), cpu_share(cpu, self._lab.cpu())
        for name in self._lab.uplink_interfaces():
            self._print(f"{name:<16}{sent.get(name, 0) * 8 / seconds / 1e6:8.2f} Mbit/s")
        switches = sum(share.process.values())
        self._print(f"machine {share.machine:.0%} of all cores, switch daemon {switches:.0%} of one core")

    def _ring(self, line: str) -> None:
        words = line.split()
        if not 1 <= len(words) <= 2:
            raise LabError("say how many bytes each rank reduces, and how many queue pairs a connection has")
        size, ranks = int(float(words[0])), [h.label for h in self._lab.plan.hosts]
        connections = ring_all_reduce(ranks, size, queue_pairs=int(words[1]) if len(words) == 2 else 1)
        result = run_traffic(self._lab, connections, _TRAFFIC_TIMEOUT_S)
        if result.completion_s is None:
            slowest = [f"{c.source} to {c.target}" for c in result.connections if c.completion_s is None]
            raise LabError(f"not complete: {', '.join((*slowest, *result.faults))}")
        ideal = ideal_ring_s(len(ranks), size, min(h.rate_bps for h in self._lab.plan.hosts))
        self._print(
            f"{result.completion_s:.3f} s; with a link of its own for every step {ideal:.3f} s; "
            f"{result.retransmissions} packets sent again"
        )
