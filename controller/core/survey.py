"""Looks at the fabric: the view that paths and routes are made of, and what switches should hold beside steering.

It puts together what discovery, hosts and sessions say, and what is to be avoided. When to look, and what to do about
what is seen, is decided in `machine`.
"""

from collections.abc import Mapping

from controller.core import capacity
from controller.core.avoidance import reduced
from controller.core.link_watch import LinkWatch
from controller.core.packets import PacketHandler
from controller.core.settings import CoreSettings
from controller.core.state import State
from controller.fabric.hosts import HostTable
from controller.fabric.model import FabricView, PortRef
from controller.fabric.servers import ServerNic, server_nics
from controller.fabric.view import PlanIndex, SwitchFacts, build
from controller.pipeline.compile import compile_base
from controller.pipeline.rules import SwitchTables


class Survey:
    """Mutable; owned by the core. `base` is what the switches should hold beside steering."""

    def __init__(
        self,
        settings: CoreSettings,
        plan: PlanIndex,
        state: State,
        watch: LinkWatch,
        hosts: HostTable,
        packets: PacketHandler,
    ) -> None:
        self._settings, self._plan, self._state = settings, plan, state
        self._watch, self._hosts, self._packets = watch, hosts, packets
        self.base: Mapping[int, SwitchTables] = {}
        # What hosts said of themselves when the view was last built.
        self._servers: Mapping[PortRef, ServerNic] = {}

    def look(self) -> None:
        """Builds the view from what is known now."""
        self._servers = server_nics(self._packets.neighbours.alone())
        whole, self._state.view_problems = self._seen(self._servers)
        self._state.reduced = reduced(whole, self._state.avoided)
        self._state.view = self._state.reduced.view

    def compile(self) -> None:
        """Makes the tables of the view, within what the switches have room for."""
        self.base = self._compiled()
        if capacity.foresee(self._state, self.base):
            self.base = self._compiled()

    def shows_news(self) -> bool:
        """Whether a look would show anything that the last one did not."""
        return self._seen(self._servers) != (self._state.reduced.whole, self._state.view_problems)

    def servers_have_changed(self) -> bool:
        """Whether hosts say something else of themselves than when last looked."""
        return server_nics(self._packets.neighbours.alone()) != self._servers

    def is_as_planned(self) -> bool:
        """Everything the plan names is there, so nothing more is to be learnt."""
        meant = self._settings.plan
        if meant is None:
            return False
        view = self._state.view
        connected = sum(s.connected for s in view.switches.values())
        seen = (connected, len(self._state.reduced.whole.links), len(view.hosts))
        return all(
            have >= want for have, want in zip(seen, map(len, (meant.switches, meant.links, meant.hosts)), strict=True)
        )

    def _seen(self, servers: Mapping[PortRef, ServerNic]) -> tuple[FabricView, tuple[str, ...]]:
        facts = {s.dpid: SwitchFacts(s.session_id is not None, s.nicira) for s in self._state.switches.values()}
        ports = {ref: known.port for ref, known in self._watch.discovery.ports.items()}
        rate = self._settings.default_rate_bps
        return build(facts, ports, self._watch.usable, self._hosts, self._plan, rate, servers)

    def _compiled(self) -> dict[int, SwitchTables]:
        rooms = self._state.rooms
        by_prefix = {dpid for dpid, room in rooms.items() if room.prefixes}
        unspread = {dpid for dpid, room in rooms.items() if room.unspread}
        without = {dpid for dpid, room in rooms.items() if room.without_detours}
        rate = self._settings.punt_packets_per_second
        widest = self._state.reduced.last_resort
        return compile_base(self._state.view, self._settings.qos, rate, by_prefix, unspread, without, widest)
