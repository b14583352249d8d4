"""BFD on a real Open vSwitch: it is turned on and off as wanted, and the core is told how it stands."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator

import pytest

from controller.core.commands import ConfigureBfd
from controller.core.events import BfdRead, Event
from controller.health.bfd import BfdSettings, Session
from controller.runtime.ovsdb_bfd import TAG, bfd_configuration
from controller.runtime.ovsdb_bfd_keeper import BfdKeeper
from controller.runtime.ovsdb_databases import Databases
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

LEAF, SPINE = 0x2A, 0x99
SETTINGS = BfdSettings(interval_ms=100, multiplier=3)


@pytest.fixture
def ovs() -> Iterator[PrivateOvs]:
    """Two cables between two bridges."""
    with PrivateOvs() as private:
        private.add_bridge("leaf1", LEAF)
        private.add_bridge("spine1", SPINE)
        for number in (1, 2):
            private.add_veth("leaf1", f"leaf1-eth{number}", number, f"spine1-eth{number}")
            subprocess.run(["ip", "link", "set", f"spine1-eth{number}", "up"], check=True)
            far = f"spine1-eth{number}"
            private.vsctl("add-port", "spine1", far, "--", "set", "interface", far, f"ofport_request={number}")
        yield private


def of(ovs: PrivateOvs, interface: str, column: str) -> str:
    return ovs.vsctl("get", "interface", interface, column).strip()


class Told:
    """What the core would know."""

    def __init__(self, keeper: BfdKeeper) -> None:
        self.keeper = keeper
        self.sessions: dict[int, object] = {}

    def __call__(self, event: Event) -> None:
        assert isinstance(event, BfdRead)
        self.sessions[event.dpid] = event.sessions

    async def want(self, dpid: int, ports: set[int] | None, settings: BfdSettings = SETTINGS) -> None:
        self.keeper.perform(ConfigureBfd(dpid, None if ports is None else frozenset(ports), settings))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.02)


def play(endpoints: list[str], scenario: Callable[[Told], object]) -> None:
    async def main() -> None:
        databases = Databases(lambda: endpoints)
        told: list[Event] = []
        keeper = BfdKeeper(databases, told.append)
        core = Told(keeper)
        keeper._tell = core
        try:
            await scenario(core)  # type: ignore[misc]
        finally:
            await keeper.stop()
            databases.close()

    asyncio.run(main())


def test_the_interval_grows_with_the_ports_of_one_daemon_unless_it_was_asked_for_exactly() -> None:
    assert bfd_configuration(BfdSettings(), 32)["min_tx"] == "50"
    assert bfd_configuration(BfdSettings(), 51)["min_rx"] == "100"
    assert bfd_configuration(BfdSettings(), 128)["min_tx"] == "150"
    assert bfd_configuration(BfdSettings(exact=True), 128)["min_tx"] == "50"


@in_namespace
def test_bfd_comes_as_wanted_tells_of_a_silent_loss_and_goes_and_that_of_others_stays(ovs: PrivateOvs) -> None:
    """One Open vSwitch for all of it: each takes seconds to start."""
    theirs = '{enable="true", min_rx="200"}'
    for end in ("leaf1-eth2", "spine1-eth2"):
        ovs.vsctl("set", "interface", end, "bfd:enable=true", "bfd:min_rx=200")
    endpoints: list[str] = []
    both = (LEAF, SPINE)

    async def scenario(core: Told) -> None:
        await core.want(LEAF, None)
        await core.until(lambda: core.sessions == {LEAF: None})
        # The database comes up later than the controller.
        endpoints.append(ovs.database)
        for dpid in both:
            await core.want(dpid, None)
        await core.until(lambda: core.sessions == {key: {2: Session.UP} for key in both})
        assert of(ovs, "leaf1-eth1", "bfd") == "{}"
        for dpid in both:
            await core.want(dpid, {1, 2})
        await core.until(lambda: core.sessions == {key: {1: Session.UP, 2: Session.UP} for key in both})
        assert (of(ovs, "leaf1-eth1", "bfd:min_rx"), of(ovs, "leaf1-eth2", "bfd")) == ('"100"', theirs)
        # What the leaf sends is lost, and the carrier stays.
        subprocess.run(
            ["tc", "qdisc", "add", "dev", "leaf1-eth1", "root", "tbf", "rate", "8bit", "burst", "10", "limit", "10"],
            check=True,
        )
        await core.until(lambda: core.sessions == {key: {1: Session.DOWN, 2: Session.UP} for key in both})
        assert of(ovs, "leaf1-eth1", "link_state") == "up"
        for dpid in both:
            await core.want(dpid, set())
        await core.until(lambda: core.sessions == {key: {2: Session.UP} for key in both})
        for interface in ("leaf1-eth1", "spine1-eth1"):
            assert (of(ovs, interface, "bfd"), TAG in of(ovs, interface, "external_ids")) == ("{}", False)
        assert of(ovs, "leaf1-eth2", "bfd") == theirs
        # A database that has gone says nothing any more.
        endpoints.clear()
        core.keeper._databases._refresh_workers()
        core.keeper._look()
        await core.until(lambda: core.sessions == dict.fromkeys(both))

    play(endpoints, scenario)
