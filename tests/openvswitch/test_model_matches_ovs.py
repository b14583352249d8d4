"""The model switch against Open vSwitch: the same rules, the same packets, the same fate.

Open vSwitch runs with its dummy datapath: the real translation of rules, ports that are only numbers. What is compared
is `ofproto/trace`: every output with the header fields as they leave, punts, and drops. Where a hash chooses, Open
vSwitch's outcome must be one of those that the model can produce.
"""

from collections.abc import Iterator
from random import Random

import pytest
from fabrics import plan, view
from ryu.ofproto import ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as openflow
from ryu.ofproto import ofproto_v1_3_parser as openflow_parser

from controller.pipeline.compile import compile_base
from controller.pipeline.detour import has_detours
from controller.pipeline.marks import LAST_HOP, set_bounced
from controller.pipeline.packet import (
    ETH_IPV4,
    ip_value,
    udp,
)
from controller.pipeline.rules import (
    Bundle,
    Output,
    Rule,
    ToGroup,
    match,
)
from controller.qos.classes import QosSettings
from tests.openvswitch.model_pair import PORTS, DummyOvs, Pair, dummy_ovs
from tests.openvswitch.model_pipelines import DOWN_PORT, UDP_PORTS, V4, RandomPipeline, fabric_like, some_packet
from tests.openvswitch.ofctl_text import HASH_FIELDS, action_text
from tests.openvswitch.private_ovs import needs_ovs

pytestmark = needs_ovs


@pytest.fixture(scope="module")
def ovs() -> Iterator[DummyOvs]:
    with dummy_ovs() as running:
        yield running


def test_hash_fields_have_the_numbers_that_open_vswitch_reads(ovs: DummyOvs) -> None:
    datapath = ofproto_protocol.ProtocolDesc(version=openflow.OFP_VERSION)
    for number, name in enumerate(HASH_FIELDS):
        # Algorithm 1 is hrw; members are given by OpenFlow port (NXM_OF_IN_PORT, 16 bits).
        bundle = openflow_parser.NXActionBundle(1, number, 7, 0x00000002, 2, 0, 0, [2, 3])
        apply = openflow_parser.OFPInstructionActions(openflow.OFPIT_APPLY_ACTIONS, [bundle])
        add = openflow_parser.OFPFlowMod(datapath, match=openflow_parser.OFPMatch(), instructions=[apply])
        add.set_xid(1)
        add.serialize()
        text = action_text(Bundle((2, 3), 7, number))
        assert text in ovs.ofctl("ofp-print", bytes(add.buf).hex())
        assert f"({name}," in text
    assert HASH_FIELDS[Bundle((1,), 0).fields] == "symmetric_l3l4+udp"


def test_a_pipeline_like_ours(ovs: DummyOvs) -> None:
    pair = Pair(ovs)
    pair.load(*fabric_like())
    random = Random(1)
    for up in (True, False):
        pair.set_up(DOWN_PORT, up)
        for _ in range(400):
            pair.agree(some_packet(random), random.choice(PORTS))


def test_bundles_and_select_groups_choose_among_the_same_members(ovs: DummyOvs) -> None:
    pair = Pair(ovs)
    rules, groups, meters = fabric_like()
    v4 = {"eth_type": ETH_IPV4}
    chosen = [
        Rule(3, 75, match(**v4, ipv4_dst=ip_value(V4[4])), 0x14, (Bundle((1, 2, 3, 3), 7, 3), Output(5))),
        Rule(3, 74, match(**v4, ipv4_dst=ip_value(V4[5])), 0x14, (ToGroup(6),)),
        Rule(3, 73, match(**v4, ipv4_dst=ip_value(V4[3])), 0x14, (Bundle((2,), 7, 3),)),
    ]
    pair.load(rules + chosen, groups, meters)
    random = Random(2)
    for up in (True, False):
        pair.set_up(DOWN_PORT, up)
        for _ in range(200):
            pair.agree_up_to_hash(some_packet(random), random.choice(PORTS))


@pytest.mark.parametrize("switch", ["leaf", "spine"])
def test_what_becomes_of_packets_on_a_detour(ovs: DummyOvs, switch: str) -> None:
    """Our own tables, with links down and packets that bounced or claim so."""
    fabric = view(plan(leaves=3, spines=2, hosts=2, parallel=2))
    dpid = next(d for d, s in fabric.switches.items() if s.role.value == switch)
    tables = compile_base(fabric, QosSettings(), 500)[dpid]
    assert has_detours(tables)
    pair = Pair(ovs)
    pair.load(sorted(tables.rules, key=lambda r: r.order), list(tables.groups), list(tables.meters))
    random = Random(switch)
    sources = [0x020000000001, LAST_HOP, set_bounced(3, 3).value]
    sources += [
        set_bounced(count, leaf, turned=turned).value
        for count in (1, 2)
        for leaf in (0x102, 0x103)
        for turned in (False, True)
    ]
    for down in ((), (3,), (3, 4), (1, 2, 3, 4)):
        for port_no in down:
            pair.set_up(port_no, False)
        for _ in range(60):
            source, destination = random.sample(fabric.hosts, 2)
            ends = (source.addresses[0], destination.addresses[0], source.mac, destination.mac)
            packet = udp(*ends, random.choice(UDP_PORTS)).with_fields(eth_src=random.choice(sources))
            pair.agree_up_to_hash(packet, random.choice(PORTS))
        for port_no in down:
            pair.set_up(port_no, True)


@pytest.mark.parametrize("seed", range(30))
def test_random_pipelines(ovs: DummyOvs, seed: int) -> None:
    random = Random(seed)
    pair = Pair(ovs)
    pipeline = RandomPipeline(random, hashes=False)
    pair.load(pipeline.rules, pipeline.groups)
    for down in (None, *random.sample(PORTS, 2)):
        if down is not None:
            pair.set_up(down, False)
        for _ in range(150):
            pair.agree(some_packet(random), random.choice(PORTS))


@pytest.mark.parametrize("seed", range(100, 110))
def test_random_pipelines_with_hashes(ovs: DummyOvs, seed: int) -> None:
    random = Random(seed)
    pair = Pair(ovs)
    pipeline = RandomPipeline(random, hashes=True)
    pair.load(pipeline.rules, pipeline.groups)
    pair.set_up(random.choice(PORTS), False)
    for _ in range(150):
        pair.agree_up_to_hash(some_packet(random), random.choice(PORTS))
