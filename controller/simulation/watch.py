"""Checks delivery after every single modification: what goes wrong *while* the tables change.

A quiet point only shows that the end is right; a rule deleted before its successor is there loses packets in between.
"""

from collections.abc import Iterable

from controller.pipeline.rules import Barrier, Modification
from controller.simulation.network import ModelNetwork
from controller.simulation.switches import ModelSwitch
from controller.simulation.walk import Probes, Violation, check_delivery, roce_probes


class DeliveryWatch:
    """Watches a network from now on; `violations` holds (time in s, violation), oldest first."""

    def __init__(
        self,
        network: ModelNetwork,
        pairs: Iterable[tuple[str, str]] | None = None,
        *,
        probes: Probes = roce_probes,
        longest_path: int | None = None,
    ) -> None:
        self.violations: list[tuple[float, Violation]] = []
        self._network = network
        self._pairs = None if pairs is None else tuple(pairs)
        self._probes = probes
        self._longest_path = longest_path
        network.watchers.append(self._check)

    def stop(self) -> None:
        self._network.watchers.remove(self._check)

    def _check(self, _: ModelSwitch, modification: Modification) -> None:
        if isinstance(modification, Barrier):
            return
        found = check_delivery(self._network, self._pairs, probes=self._probes, longest_path=self._longest_path)
        self.violations += ((self._network.now_s, violation) for violation in found)
