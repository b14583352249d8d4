"""Which modifications the model refuses, and what deletions take along: the same as Open vSwitch."""

import re
import socket
import struct
from collections.abc import Iterator

import pytest
from ryu.ofproto import ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as openflow
from ryu.ofproto import ofproto_v1_3_parser as openflow_parser

from controller.pipeline.packet import ETH_ARP, ETH_IPV4, ETH_IPV6, IP_ICMP, IP_TCP, IP_UDP, VLAN_PRESENT
from controller.pipeline.rules import (
    OFPP_ANY,
    AddGroup,
    AddMeter,
    AddRule,
    Bucket,
    DecrementTtl,
    DeleteGroup,
    DeleteMeter,
    DeleteRule,
    Group,
    GroupKind,
    Match,
    Meter,
    Modification,
    ModifyGroup,
    ModifyMeter,
    Output,
    Rule,
    SetField,
    SetTtl,
    ToGroup,
    match,
)
from tests.openvswitch.model_pair import BRIDGE, DummyOvs, Pair, dummy_ovs
from tests.openvswitch.ofctl_text import delete_text, group_text, meter_text, rule_text
from tests.openvswitch.private_ovs import needs_ovs

pytestmark = needs_ovs


@pytest.fixture(scope="module")
def ovs() -> Iterator[DummyOvs]:
    with dummy_ovs() as running:
        yield running


def ofctl_command(modification: Modification) -> tuple[str, ...]:
    match modification:
        case AddRule(rule):
            return ("add-flow", BRIDGE, rule_text(rule))
        case DeleteRule(rule):
            return ("--strict", "del-flows", BRIDGE, delete_text(rule))
        case AddGroup(group):
            return ("add-group", BRIDGE, group_text(group))
        case ModifyGroup(group):
            return ("mod-group", BRIDGE, group_text(group))
        case DeleteGroup(group_id):
            return ("del-groups", BRIDGE, f"group_id={group_id}")
        case AddMeter(meter):
            return ("add-meter", BRIDGE, meter_text(meter))
        case ModifyMeter(meter):
            return ("mod-meter", BRIDGE, meter_text(meter))
        case DeleteMeter(meter_id):
            return ("del-meter", BRIDGE, f"meter={meter_id}")
    raise AssertionError(modification)


def ovs_error(ovs: DummyOvs, modification: Modification) -> str | None:
    """The OpenFlow error's name, from the switch or from ovs-ofctl, which makes some of the switch's checks itself."""
    try:
        ovs.ofctl(*ofctl_command(modification))
    except RuntimeError as error:
        names = re.findall(r"OFP(?:BAC|BIC|BMC|FMFC|GMFC|MMFC)_[A-Z_]+", str(error))
        return names[0] if names else str(error)
    return None


ALL = match()
V4 = {"eth_type": ETH_IPV4}


def group(group_id: int, kind: GroupKind, *buckets: Bucket) -> AddGroup:
    return AddGroup(Group(group_id, kind, buckets))


def bucket(*actions: Output | ToGroup, watch: int = OFPP_ANY) -> Bucket:
    return Bucket(actions, watch_port=watch)


def rule(m: Match, *actions: Output | ToGroup | SetField | DecrementTtl | SetTtl, **more: int) -> AddRule:
    table_id = more.pop("table_id", 0)
    return AddRule(Rule(table_id, 5, m, 1, actions, **more))


CASES: dict[str, Modification] = {
    "unknown group": rule(ALL, ToGroup(9)),
    "known group": rule(ALL, ToGroup(1)),
    "group exists": group(1, GroupKind.ALL, bucket(Output(1))),
    "new group": group(2, GroupKind.ALL, bucket(Output(1))),
    "bucket with an unknown group": group(2, GroupKind.ALL, bucket(ToGroup(9))),
    "modify an unknown group": ModifyGroup(Group(9, GroupKind.ALL, (bucket(Output(1)),))),
    "modify a group": ModifyGroup(Group(1, GroupKind.ALL, (bucket(Output(2)), bucket(Output(3))))),
    "watch in an all group": group(2, GroupKind.ALL, bucket(Output(1), watch=1)),
    "watch in an indirect group": group(2, GroupKind.INDIRECT, bucket(Output(1), watch=1)),
    "empty group": group(2, GroupKind.ALL),
    "delete an unknown group": DeleteGroup(9),
    "delete an unknown meter": DeleteMeter(9),
    "unknown meter": rule(ALL, Output(1), meter_id=9),
    "known meter": rule(ALL, Output(1), meter_id=1),
    "meter exists": AddMeter(Meter(1, 5, 5)),
    "modify a meter": ModifyMeter(Meter(1, 5, 5)),
    "modify an unknown meter": ModifyMeter(Meter(9, 5, 5)),
    "goto the same table": rule(ALL, table_id=2, goto_table=2),
    "goto a lower table": rule(ALL, table_id=2, goto_table=1),
    "TTL of IPv6": rule(match(eth_type=ETH_IPV6), DecrementTtl(), SetTtl(3), Output(1)),
    "DSCP without IP": rule(ALL, SetField("ip_dscp", 3)),
    "DSCP of IPv6": rule(match(eth_type=ETH_IPV6), SetField("ip_dscp", 3), Output(1)),
    "IPv6 address of IPv4": rule(match(**V4), SetField("ipv6_dst", 3)),
    "UDP port of TCP": rule(match(**V4, ip_proto=IP_TCP), SetField("udp_src", 3)),
    "UDP port of UDP": rule(match(**V4, ip_proto=IP_UDP), SetField("udp_src", 3), Output(1)),
    "VLAN of untagged": rule(ALL, SetField("vlan_vid", VLAN_PRESENT | 3)),
    "VLAN of any tag": rule(match(vlan_vid=(VLAN_PRESENT, VLAN_PRESENT)), SetField("vlan_vid", VLAN_PRESENT | 3)),
    "VLAN of a tag": rule(match(vlan_vid=VLAN_PRESENT | 2), SetField("vlan_vid", VLAN_PRESENT | 3)),
    "ICMP type": rule(match(**V4, ip_proto=IP_ICMP, icmpv4_type=8), Output(1)),
    "masked UDP port": rule(match(**V4, ip_proto=IP_UDP, udp_src=(1, 1)), Output(1)),
    "port that is not there": rule(ALL, Output(1000)),
    "reserved port": rule(ALL, Output(0xFF00 + 1)),
}


@pytest.mark.parametrize("modification", CASES.values(), ids=CASES.keys())
def test_the_same_modifications_are_refused(ovs: DummyOvs, modification: Modification) -> None:
    pair = Pair(ovs)
    pair.load([], [Group(1, GroupKind.INDIRECT, (bucket(Output(1)),))], [Meter(1, 10, 10)])
    refusals = pair.model.execute([modification])
    mine = refusals[0].name.split("/")[1] if refusals else None
    assert mine == ovs_error(ovs, modification)


# What ovs-ofctl corrects or refuses before it sends anything: sent to the switch as bytes.
RAW_CASES: dict[str, tuple[AddRule, dict[str, object], bool]] = {
    "address without eth_type": (rule(match(ipv4_dst=1)), {"ipv4_dst": 1}, False),
    "masked DSCP": (rule(match(**V4, ip_dscp=(1, 1))), {"eth_type": ETH_IPV4, "ip_dscp": (1, 1)}, False),
    "TTL without IP": (rule(ALL, DecrementTtl()), {}, True),
    "TTL of ARP": (rule(match(eth_type=ETH_ARP), DecrementTtl()), {"eth_type": ETH_ARP}, True),
    "TTL of IPv4": (rule(match(**V4), DecrementTtl()), {"eth_type": ETH_IPV4}, True),
}


def raw_error(ovs: DummyOvs, fields: dict[str, object], decrement_ttl: bool) -> tuple[int, int] | None:
    """Type and code of the error that answers a flow mod, None if it stands."""
    datapath = ofproto_protocol.ProtocolDesc(version=openflow.OFP_VERSION)
    actions = [openflow_parser.OFPActionDecNwTtl()] if decrement_ttl else []
    instruction = openflow_parser.OFPInstructionActions(openflow.OFPIT_APPLY_ACTIONS, actions)
    add = openflow_parser.OFPFlowMod(
        datapath, match=openflow_parser.OFPMatch(**fields), instructions=[instruction], out_port=0, out_group=0
    )
    messages = [openflow_parser.OFPHello(datapath), add, openflow_parser.OFPBarrierRequest(datapath)]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(f"{ovs.run_dir}/{BRIDGE}.mgmt")
        for xid, message in enumerate(messages):
            message.set_xid(xid)
            message.serialize()
            connection.sendall(bytes(message.buf))
        stream = connection.makefile("rb")
        while True:
            _, kind, length, _ = struct.unpack("!BBHI", stream.read(8))
            body = stream.read(length - 8)
            if kind == openflow.OFPT_ERROR:
                error_type, code = struct.unpack_from("!HH", body)
                return error_type, code
            if kind == openflow.OFPT_BARRIER_REPLY:
                return None


@pytest.mark.parametrize(("modification", "fields", "decrement_ttl"), RAW_CASES.values(), ids=RAW_CASES.keys())
def test_the_same_raw_modifications_are_refused(
    ovs: DummyOvs, modification: AddRule, fields: dict[str, object], decrement_ttl: bool
) -> None:
    refusals = Pair(ovs).model.execute([modification])
    mine = None
    if refusals:
        error_type, code = refusals[0].name.split("/")
        mine = (getattr(openflow, error_type), getattr(openflow, code))
    assert mine == raw_error(ovs, fields, decrement_ttl)


def test_deletions_take_the_same_rules_along(ovs: DummyOvs) -> None:
    pair = Pair(ovs)
    groups = [Group(n, GroupKind.INDIRECT, (bucket(Output(n)),)) for n in (1, 2, 3)]
    groups.append(Group(4, GroupKind.INDIRECT, (bucket(ToGroup(1)),)))
    rules = [Rule(0, n, match(in_port=n), n, (ToGroup(n),)) for n in (1, 2, 3, 4)]
    rules += [Rule(1, 5, ALL, 9, (Output(1),), meter_id=1), Rule(1, 4, ALL, 9, (Output(1),))]
    pair.load(rules, groups, [Meter(1, 10, 10)])
    deletions: list[Modification] = [
        DeleteGroup(1),
        DeleteMeter(1),
        DeleteRule(rules[1]),
        DeleteRule(Rule(1, 3, ALL, 9)),
    ]
    assert pair.model.execute(deletions) == ()
    for deletion in deletions:
        assert ovs_error(ovs, deletion) is None
    held = sorted((r.table_id, r.priority) for r in pair.model.tables().rules)
    lines = ovs.ofctl("dump-flows", BRIDGE).splitlines()[1:]
    theirs = [re.search(r"table=(\d+),.*priority=(\d+)", line) for line in lines]
    assert sorted((int(m[1]), int(m[2])) for m in theirs if m) == held == [(0, 3), (0, 4), (1, 4)]


def test_a_full_table_refuses_and_overwrites(ovs: DummyOvs) -> None:
    pair = Pair(ovs)
    ovs.vsctl(
        *("--", "--id=@t", "create", "Flow_Table", "flow_limit=2", "overflow_policy=refuse"),
        *("--", "set", "bridge", BRIDGE, "flow_tables:7=@t"),
    )
    try:
        adds = [AddRule(Rule(7, n, ALL, n)) for n in (1, 2, 3)] + [AddRule(Rule(7, 1, ALL, 9))]
        theirs = [ovs_error(ovs, add) for add in adds]
    finally:
        ovs.vsctl("clear", "bridge", BRIDGE, "flow_tables")
    pair.model.limits = type(pair.model.limits)(rules_per_table=2)
    mine = {refusal.index: refusal.name.split("/")[1] for refusal in pair.model.execute(adds)}
    assert [mine.get(index) for index in range(4)] == theirs == [None, None, "OFPFMFC_TABLE_FULL", None]
