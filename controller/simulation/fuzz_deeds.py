"""Carries out what befalls a fuzzed network: cables, power, sessions, and other people's hands in the tables.

It remembers what the checks must know: what others have laid, and what takes longer to be noticed. Jobs and the
controller's own end are `fuzz_run`'s; how bad each deed is for the network is decided in `network` and `fuzz_trouble`.
"""

from functools import partial

from controller.core.remembered import Cable
from controller.pipeline.rules import SwitchTables
from controller.simulation import cables, fuzz_gray, fuzz_trouble
from controller.simulation.fuzz_fabric import FuzzFabric
from controller.simulation.fuzz_steps import Step, What
from controller.simulation.network import ModelNetwork

# Two plugs change places: how often faster than any port notices, and how long they are out else.
_QUICK_SHARE = 0.3
_UNPLUGGED_S = 0.5
# How often what a lossy cable loses arrives broken, and is counted as errors, rather than not at all.
_BROKEN_SHARE = 0.5


class Deeds:
    """`foreign` are others' entries by switch; `altered` and `silent` say what has happened since they were cleared."""

    def __init__(self, fabric: FuzzFabric, network: ModelNetwork) -> None:
        self._fabric = fabric
        self._network = network
        self.foreign: dict[str, SwitchTables] = {}
        self.altered = False
        self.silent = False
        # Cables between switches that have ever lost a share of the frames.
        self.ever_lossy: set[Cable] = set()

    def do(self, step: Step) -> None:
        """Carries a step out; one that makes no sense now does nothing."""
        name, number = step.where, step.number
        match step.what:
            case What.CUT | What.RESTORE | What.FAIL_SILENTLY | What.SWAP:
                self._cable_trouble(step.what, self._network.wiring.cables[int(number)], name)
            case What.LOSSY:
                self._make_lossy(self._network.wiring.cables[int(number)], name, number % 1)
            case What.REBOOT | What.POWER_OFF | What.POWER_ON:
                self._power(step.what, name, number)
            case What.WIPE:
                fuzz_trouble.wipe(self._network.switch(name))
                self.foreign.pop(name, None)
                self.altered = True
            case What.ALTER:
                fuzz_trouble.alter(self._network.switch(name), int(number))
                self.altered = True
            case What.ADD_FOREIGN:
                self._add_foreign(name, int(number))
            case What.FAIL_BUNDLES:
                self._network.switch(name).failing_bundles = int(number)
            case What.HOSTS_SPEAK:
                self._network.announce_hosts()
            case What.FILL_DISK:
                self._network.journal.problem = "disk full"
                self._network.later(number, self._empty_disk)
            case _:
                self._session_trouble(step.what, name, number)

    def _empty_disk(self) -> None:
        self._network.journal.problem = ""

    def _cable_trouble(self, what: What, cable: cables.Cable, end: str) -> None:
        network = self._network
        if what is What.CUT:
            network.cut(cable)
        elif what is What.RESTORE:
            network.restore(cable)
        elif what is What.SWAP:
            self._swap(cable, network.wiring.cables[int(end)])
        else:
            self.silent = True
            sender = None if end == "both" else network.wiring.name_of(cable.a if end == "a" else cable.b)
            network.fail_silently(cable, sender=sender)

    def _make_lossy(self, cable: cables.Cable, end: str, share: float) -> None:
        ends = fuzz_gray.ends_of(cable)
        if ends is not None:
            sender = None if end == "both" else self._network.wiring.name_of(cable.a if end == "a" else cable.b)
            broken = self._network.random.random() < _BROKEN_SHARE
            self._network.make_lossy(cable, share, sender=sender, broken=broken)
            self.ever_lossy.add(ends)

    def _note_lossy(self) -> None:
        """After plugs have changed places."""
        lossy = (fuzz_gray.ends_of(cable) for cable in self._network.wiring.cables if cable.lossy_from)
        self.ever_lossy |= {ends for ends in lossy if ends is not None}

    def _swap(self, one: cables.Cable, other: cables.Cable) -> None:
        """Somebody exchanges the spine ends of two cables; how fast, and whether the switches notice, is chance."""
        if one is other or isinstance(one.b, str) or isinstance(other.b, str):
            return
        network = self._network
        # Beacons alone can show it when no carrier was missed.
        self.silent = True
        if network.random.random() < _QUICK_SHARE:
            network.exchange(one, other)
            self._note_lossy()
            return
        were_cut = (one.cut, other.cut)
        network.cut(one)
        network.cut(other)

        def plug_in() -> None:
            one.cut, other.cut = were_cut
            network.exchange(one, other)
            self._note_lossy()

        network.later(network.random.uniform(0.0, _UNPLUGGED_S), plug_in)

    def _power(self, what: What, name: str, off_s: float) -> None:
        if what is What.POWER_ON:
            if self._network.is_off(name):
                self._network.power_on(name)
            return
        if self._network.is_off(name):
            return
        self.foreign.pop(name, None)
        self._network.power_off(name)
        if what is What.REBOOT:
            self._network.later(off_s, partial(self._power, What.POWER_ON, name, 0.0))

    def _session_trouble(self, what: What, name: str, number: float) -> None:
        network = self._network
        if what is What.SLOW_DOWN:
            network.slow_down(name, number)
        elif what is What.FREEZE:
            session = network.session(name)
            if session is not None and not session.frozen:
                session.freeze()
                network.later(number, session.thaw)
        elif what is What.LOSE_SESSION:
            network.lose_session(name, reconnect_after_s=number)
        elif what is What.AGENT_CRASH:
            for switch in {"leaves": self._fabric.leaves, "spines": self._fabric.spines}.get(
                name, self._fabric.switches
            ):
                network.lose_session(switch, reconnect_after_s=number)

    def _add_foreign(self, name: str, seed: int) -> None:
        if self._network.is_off(name):
            return
        before = self.foreign.get(name, SwitchTables())
        new = fuzz_trouble.add(self._network.switch(name), fuzz_trouble.foreign(seed))
        self.foreign[name] = SwitchTables(
            before.rules | new.rules, before.groups | new.groups, before.meters | new.meters
        )
        # Where it is removed by policy, that shows with the next audit.
        self.altered = self.altered or self._fabric.removes_foreign
