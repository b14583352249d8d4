"""Plain ECMP as a Ryu application: the baseline that Heddle is compared with. No controller process is needed.

`HEDDLE_TOPOLOGY=topologies/leafspine-2x4.yaml ryu-manager apps/ecmp.py`. E-ECMP is the same application: there the
*senders* spread their traffic over several queue pairs with different UDP source ports, which ECMP then hashes.
HEDDLE_ECMP_SEED (a number, default 0) makes a run repeatable with other hashes; HEDDLE_ECMP_SELECT=group uses select
groups on switches without Nicira's extensions.
"""

import os
from typing import Any

from heddle.southbound.v1 import link_pb2

from apps.ecmp_baseline import EcmpBaseline
from apps.ecmp_rules import EcmpRoutes, Select
from apps.switch_events import SwitchEventsApp
from controller.fabric.plan import FabricPlan
from controller.formats import topology_file
from controller.formats.problems import FileFormatError


class Ecmp(SwitchEventsApp):
    """Reports of the switches go to the baseline, its requests straight back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plan = self._plan()
        self._baseline = EcmpBaseline(plan, EcmpRoutes(plan, self._seed(), self._select()))

    def report(self, message: link_pb2.AgentMessage) -> None:
        for request in self._baseline.handle(message):
            self.switches.carry_out(request)

    def _plan(self) -> FabricPlan:
        path = os.environ.get("HEDDLE_TOPOLOGY")
        if not path:
            self.lifetime.refuse_to_start("HEDDLE_TOPOLOGY is not set: it names the topology file of the fabric")
        try:
            return topology_file.load(path)
        except FileFormatError as problem:
            self.lifetime.refuse_to_start(str(problem))

    def _seed(self) -> int:
        text = os.environ.get("HEDDLE_ECMP_SEED", "0")
        try:
            return int(text)
        except ValueError:
            self.lifetime.refuse_to_start(f"HEDDLE_ECMP_SEED={text!r} is not a whole number")

    def _select(self) -> Select:
        text = os.environ.get("HEDDLE_ECMP_SELECT", Select.BUNDLE.value)
        try:
            return Select(text)
        except ValueError:
            self.lifetime.refuse_to_start(f"HEDDLE_ECMP_SELECT={text!r}: write bundle or group")
