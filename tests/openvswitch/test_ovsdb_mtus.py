"""The MTU of each port as a real Open vSwitch's database has it, told to the core (B47)."""

import asyncio
from collections.abc import Iterator

import pytest

from controller.core.commands import ConfigureQueues
from controller.core.events import Event, MtusRead
from controller.qos.queues import PortQueues, Queue
from controller.runtime.ovsdb import QueueConfigurator
from controller.runtime.ovsdb_databases import Databases
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

DPID = 0x2B
RATE_BPS = 10_000_000


@pytest.fixture
def ovs() -> Iterator[PrivateOvs]:
    with PrivateOvs() as private:
        private.add_bridge("leaf1", DPID)
        private.add_veth("leaf1", "leaf1-eth1", 1, "peer1")
        private.add_veth("leaf1", "leaf1-eth2", 2, "peer2")
        private.vsctl("set", "interface", "leaf1-eth1", "mtu_request=4200")
        yield private


async def read(ovs: PrivateOvs, wanted: dict[int, int]) -> dict[int, int]:
    """What the core is told until it is as wanted; Open vSwitch sets an MTU after vsctl has returned."""
    told: list[Event] = []
    configurator = QueueConfigurator(Databases(lambda: [ovs.database]), first_retry_s=0.1, tell=told.append)
    queues = tuple(PortQueues(port, RATE_BPS, (Queue(0, RATE_BPS, RATE_BPS, 1),)) for port in (1, 2))
    try:
        for _ in range(40):
            configurator.perform(ConfigureQueues(DPID, queues))
            await asyncio.sleep(0.1)
            known = [event.mtu_bytes for event in told if isinstance(event, MtusRead) and event.dpid == DPID]
            # The bridge's own port has an MTU as well.
            found = {port: mtu for port, mtu in known[-1].items() if port in wanted} if known else {}
            if found == wanted:
                break
        return found
    finally:
        await configurator.stop()


@in_namespace
def test_the_core_is_told_the_mtu_of_every_port(ovs: PrivateOvs) -> None:
    wanted = {1: 4200, 2: 1500}
    assert asyncio.run(read(ovs, wanted)) == wanted
