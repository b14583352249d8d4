"""A whole fabric in simulated time: model switches, hosts and cables of a plan, driving a controller core.

It decides who hears of what and when; every delay and every choice comes from one seed, so a run can be repeated
exactly.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from controller.core.commands import (
    Command,
    ConfigureQueues,
    ReadPortStatistics,
    ReadTables,
    Remember,
    SearchPlan,
    SendBatch,
    SendPacket,
)
from controller.core.events import (
    BatchAnswered,
    BatchStatus,
    Event,
    PacketReceived,
    PlanFound,
    PortChanged,
    Remembered,
    Restored,
    TablesRead,
)
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.pipeline.packet import Packet
from controller.pipeline.rules import Modification
from controller.placement.moves import replan
from controller.qos.queues import PortQueues
from controller.simulation.admission import Limits
from controller.simulation.background import Background
from controller.simulation.cables import Cable
from controller.simulation.dataplane import DataPlane
from controller.simulation.driver import Core, CoreDriver
from controller.simulation.hosts import ModelHost
from controller.simulation.journal import ModelJournal
from controller.simulation.session import Session, Surroundings
from controller.simulation.switches import ModelSwitch
from controller.simulation.timing import Timing
from controller.simulation.wiring import Wiring

# How long a search for a better plan takes, in the model's time.
_SEARCH_S = 0.5


class ModelNetwork(CoreDriver):
    """Switches, hosts and cables are found by their names in the plan; trouble is made by the methods below."""

    def __init__(
        self,
        plan: FabricPlan,
        core: Core,
        *,
        seed: int = 0,
        timing: Timing | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(core)
        self.plan = plan
        self.timing = timing or Timing()
        self.random = Random(seed)
        self.wiring = Wiring(plan, limits)
        self.queues: dict[int, tuple[PortQueues, ...]] = {}
        # Outlives the cores.
        self.journal = ModelJournal()
        # Called after every single modification that a switch has carried out.
        self.watchers: list[Callable[[ModelSwitch, Modification], None]] = []
        self.sessions: dict[int, Session] = {}
        self.reorders_between_barriers = False
        self.dataplane = DataPlane(self.wiring, self.agenda, self.random, self.timing, self._punt)
        # Chance of its own, so that what is lost changes nothing about when things happen.
        self.background = Background(self.wiring, Random(seed))
        self._slowness: dict[int, float] = {}
        self._session_count = 0
        for name in self.wiring.switches:
            self._connect_later(name)

    # --- looking ------------------------------------------------------------------------------------------

    @property
    def hosts(self) -> dict[str, ModelHost]:
        return self.wiring.hosts

    def switch(self, name: str) -> ModelSwitch:
        return self.wiring.switches[name]

    def session(self, name: str) -> Session | None:
        """The switch's latest session; it may be over."""
        return self.sessions.get(self.switch(name).dpid)

    def is_off(self, name: str) -> bool:
        return name in self.dataplane.off

    def cable(self, a: str, b: str, index: int = 0) -> Cable:
        """The cable between two named switches or hosts; `index` tells parallel ones apart. Raises LookupError."""
        between = self.wiring.cables_between(a, b)
        if index >= len(between):
            raise LookupError(f"{len(between)} cables between {a} and {b}: no cable number {index}")
        return between[index]

    # --- what the core commands ---------------------------------------------------------------------------

    def _carry_out(self, command: Command) -> None:
        match command:
            case SendPacket():
                session = self.sessions.get(command.dpid)
                if session is not None and session.open_at_core:
                    session.accept(command)
            case SendBatch() | ReadTables() | ReadPortStatistics():
                session = self.sessions.get(command.dpid)
                if session is not None and session.open_at_core and session.session_id == command.session_id:
                    session.accept(command)
                else:
                    self.agenda.after(0.0, lambda: self._answer_for_the_dead(command))
            case ConfigureQueues(dpid, ports):
                self.queues[dpid] = ports
            case Remember():
                self._acknowledge(self.journal.write(command))
            case SearchPlan():
                found = PlanFound(command.search_id, replan(command.problem, group_of=command.group_of))
                self.later(_SEARCH_S, lambda asked=self.core: self._tell(asked, found))  # type: ignore[misc]
            case _:
                pass  # answers and reports are in the record

    def _acknowledge(self, answer: Remembered) -> None:
        """After the command at hand, as the engine does."""
        asked = self.core
        self.agenda.after(0.0, lambda: self._tell(asked, answer))

    def _tell(self, asked: Core | None, answer: Event) -> None:
        """A core that has died since it asked hears nothing."""
        if self.core is asked:
            self.inject(answer)

    def _answers_owed(self) -> str:
        # A frozen switch answers nothing until it thaws: waiting for it would never end.
        owed = []
        for session in self.sessions.values():
            pending = len(session.unanswered_batches) + len(session.unanswered_reads)
            if pending and session.open_at_core and not session.frozen:
                owed.append(f"{session.switch.name} owes {pending} answers")
        return "; ".join(owed)

    def _answer_for_the_dead(self, command: SendBatch | ReadTables | ReadPortStatistics) -> None:
        """The session that a command names is over; what the agent then answers."""
        if isinstance(command, SendBatch):
            self.inject(BatchAnswered(command.dpid, command.session_id, command.batch_id, BatchStatus.LOST))
        elif isinstance(command, ReadTables):
            self.inject(TablesRead(command.dpid, command.session_id, command.request_id, None))

    def _punt(self, switch: ModelSwitch, event: PacketReceived) -> None:
        session = self.sessions.get(switch.dpid)
        if session is not None:
            session.report(replace(event, session_id=session.session_id))

    # --- sessions -----------------------------------------------------------------------------------------

    def _connect_later(self, name: str, delay_s: float | None = None) -> None:
        delay = self.random.uniform(*self.timing.connect_s) if delay_s is None else delay_s
        self.later(delay, lambda: self._connect(name))

    def _connect(self, name: str) -> None:
        switch = self.switch(name)
        old = self.sessions.get(switch.dpid)
        if self.core is None or self.is_off(name) or (old is not None and old.open_at_switch):
            return
        if old is not None:
            # The same switch has come back before the end of its old session was noticed.
            old.end_at_core("replaced by a new session")
        self._session_count += 1
        around = Surroundings(
            self.agenda,
            self.random,
            self.timing,
            self._hear,
            self.dataplane.carry_out,
            self._was_modified,
            self._count_traffic,
        )
        session = Session(switch, f"{switch.dpid:x}-{self._session_count}", around)
        session.slowness = self._slowness.get(switch.dpid, 1.0)
        session.reorders_between_barriers = self.reorders_between_barriers
        self.sessions[switch.dpid] = session
        session.connect()

    def _hear(self, event: Event) -> None:
        self.inject(event)

    def _count_traffic(self) -> None:
        self.background.count(self.now_s, self.dataplane.off)

    def _was_modified(self, switch: ModelSwitch, modification: Modification) -> None:
        for watcher in self.watchers:
            watcher(switch, modification)

    def lose_session(self, name: str, *, reconnect_after_s: float | None = None) -> None:
        """Breaks the TCP connection; each side notices in its own time. Tables stay."""
        session = self.session(name)
        if session is None or not session.open_at_switch:
            return
        reconnect_s = self.random.uniform(*self.timing.connect_s) if reconnect_after_s is None else reconnect_after_s
        noticed_s = self.random.uniform(*self.timing.control_latency_s)
        self.later(noticed_s, session.end_at_switch)
        self.later(self.random.uniform(*self.timing.control_latency_s), lambda: session.end_at_core("connection lost"))
        self._connect_later(name, noticed_s + reconnect_s)

    def freeze(self, name: str) -> None:
        """The switch stops answering, without losing its connection; its tables go on forwarding."""
        session = self.session(name)
        if session is not None:
            session.freeze()

    def thaw(self, name: str) -> None:
        session = self.session(name)
        if session is not None:
            session.thaw()

    def slow_down(self, name: str, factor: float) -> None:
        """Everything the switch says or does takes `factor` times as long, from now on."""
        dpid = self.switch(name).dpid
        self._slowness[dpid] = factor
        if dpid in self.sessions:
            self.sessions[dpid].slowness = factor

    def stop_controller(self) -> None:
        """The controller dies without a word. Switches keep forwarding, and try to reconnect to nobody."""
        self.core = None
        for session in self.sessions.values():
            session.forget()
            # What is under way to the switch may still reach it.
            self.later(self.random.uniform(*self.timing.control_latency_s), session.end_at_switch)

    def start_controller(self, core: Core) -> None:
        """A new controller, which knows what the last one wrote down; every running switch connects to it."""
        self.core = core
        self.inject(Restored(self.journal.facts()))
        for name in self.wiring.switches:
            slowest_notice_s = self.timing.control_latency_s[1]
            self._connect_later(name, slowest_notice_s + self.random.uniform(*self.timing.connect_s))

    def restart_controller(self, core: Core, *, down_s: float = 0.0) -> None:
        self.stop_controller()
        self.run_for(down_s)
        self.start_controller(core)

    # --- hosts --------------------------------------------------------------------------------------------

    def send(self, host: str, packet: Packet) -> None:
        self.dataplane.send_from_host(host, packet)

    def announce_hosts(self, *, within_s: float = 0.1) -> None:
        """Every host sends a gratuitous ARP, each at its own moment."""
        for name, host in self.hosts.items():
            send = partial(self.dataplane.send_from_host, name, host.announcement())
            self.later(self.random.uniform(0.0, within_s), send)

    # --- trouble with cables and power --------------------------------------------------------------------

    def cut(self, cable: Cable) -> None:
        """Both ends lose their carrier."""
        cable.cut = True
        self._check_carrier(cable)

    def restore(self, cable: Cable) -> None:
        """Undoes a cut and silent failures, losses included."""
        cable.lossy_from.clear()
        cable.breaks_frames = False
        cable.cut = False
        cable.dead_from.clear()
        self._check_carrier(cable)

    def fail_silently(self, cable: Cable, *, sender: str | None = None) -> None:
        """Frames get lost without a loss of carrier: those that the named end sends, or all."""
        names = {self.wiring.name_of(end): end for end in (cable.a, cable.b)}
        if sender is not None and sender not in names:
            raise LookupError(f"{sender} is not at the cable {self.wiring.describe((cable.a, cable.b))}")
        cable.dead_from |= set(names.values()) if sender is None else {names[sender]}
        self._last_activity_s = self.now_s

    def make_lossy(self, cable: Cable, share: float, *, sender: str | None = None, broken: bool = False) -> None:
        """That share of the frames get lost, with the carrier up: of those that the named end sends, or of all. They
        are swallowed, or arrive `broken`."""
        cable.breaks_frames = broken
        for end in (cable.a, cable.b):
            if sender in (None, self.wiring.name_of(end)):
                cable.lossy_from[end] = share

    def plug(self, a: PortRef, b: PortRef, rate_bps: int) -> Cable:
        """Adds a cable while everything runs; new ports are reported. Raises ValueError when a port is taken."""
        known = [end for end in (a, b) if end.port_no in self.wiring.by_dpid[end.dpid].ports]
        cable = self.wiring.plug(a, b, rate_bps)
        for end in (a, b):
            if end not in known:
                self._report_port(end)
        self._check_carrier(cable)
        return cable

    def unplug(self, cable: Cable) -> None:
        """Pulls both ends out; they may then be plugged in elsewhere."""
        cable.cut = True
        self._check_carrier(cable)
        self.wiring.unplug(cable)

    def exchange(self, one: Cable, other: Cable) -> None:
        """Plugs the second end of each into where the other's was; whether any port misses its carrier is chance."""
        self.wiring.exchange(one, other)
        self._check_carrier(one)
        self._check_carrier(other)

    def reboot(self, name: str, *, off_s: float | None = None) -> None:
        """The switch loses its tables and comes back with a new session; its neighbours see their ports go down."""
        self.power_off(name)
        self.later(self.random.uniform(*self.timing.boot_s) if off_s is None else off_s, lambda: self.power_on(name))

    def power_off(self, name: str) -> None:
        self.dataplane.off.add(name)
        session = self.session(name)
        if session is not None:
            session.end_at_switch()
            noticed_s = self.random.uniform(*self.timing.control_latency_s)
            self.later(noticed_s, lambda: session.end_at_core("the switch is gone"))
        for cable in self.wiring.cables_of(name):
            self._check_carrier(cable)

    def power_on(self, name: str) -> None:
        """The switch boots with empty tables and connects."""
        switch = self.switch(name)
        self.dataplane.off.discard(name)
        switch.now_s = self.now_s
        switch.reboot()
        for cable in self.wiring.cables_of(name):
            self._check_carrier(cable)
        self._connect_later(name)

    def _check_carrier(self, cable: Cable) -> None:
        for end in (cable.a, cable.b):
            if isinstance(end, PortRef):
                self.later(self.random.uniform(*self.timing.carrier_s), partial(self._see_carrier, end))

    def _see_carrier(self, end: PortRef) -> None:
        """The switch looks whether its port has a carrier, and reports a change."""
        switch = self.wiring.by_dpid[end.dpid]
        cable = self.wiring.cable_at(end)
        peer_on = cable is not None and not self.is_off(self.wiring.name_of(cable.other(end)))
        up = cable is not None and not cable.cut and peer_on
        if up != switch.ports[end.port_no].up:
            switch.set_port_up(end.port_no, up)
            if not self.is_off(switch.name):
                self._report_port(end)

    def _report_port(self, end: PortRef) -> None:
        session = self.sessions.get(end.dpid)
        if session is not None:
            port = self.wiring.by_dpid[end.dpid].ports[end.port_no]
            session.report(PortChanged(end.dpid, session.session_id, port))
