"""Rules, groups, meters and packets in the language of `ovs-ofctl` and `ovs-appctl ofproto/trace`."""

from ipaddress import IPv4Address, IPv6Address

from controller.pipeline.packet import VLAN_PRESENT, Packet, mac_text
from controller.pipeline.rules import (
    OFPP_ANY,
    OFPP_CONTROLLER,
    Action,
    Bucket,
    Bundle,
    DecrementTtl,
    Group,
    GroupKind,
    Match,
    MatchField,
    Meter,
    Output,
    Rule,
    SetField,
    SetQueue,
    SetTtl,
    ToGroup,
)

# By NX_HASH_FIELDS_* number.
HASH_FIELDS = (
    "eth_src",
    "symmetric_l4",
    "symmetric_l3l4",
    "symmetric_l3l4+udp",
    "nw_src",
    "nw_dst",
    "symmetric_l3",
)
_GROUP_TYPES = {
    GroupKind.ALL: "all",
    GroupKind.SELECT: "select",
    GroupKind.INDIRECT: "indirect",
    GroupKind.FAST_FAILOVER: "ff",
}


def value_text(name: str, value: int) -> str:
    """A field's value as ovs-ofctl reads it."""
    if name in ("eth_src", "eth_dst", "arp_sha", "arp_tha"):
        return mac_text(value)
    if name in ("ipv4_src", "ipv4_dst", "arp_spa", "arp_tpa"):
        return str(IPv4Address(value))
    if name in ("ipv6_src", "ipv6_dst", "ipv6_nd_target"):
        return str(IPv6Address(value))
    return str(value) if name in ("in_port", "ip_dscp", "ip_ecn") else hex(value)


# ovs-ofctl takes OXM names, except where it has an older name of its own.
_NAMES = {
    "eth_src": "dl_src",
    "eth_dst": "dl_dst",
    "eth_type": "dl_type",
    "ip_proto": "nw_proto",
    "ip_ecn": "nw_ecn",
    "ipv4_src": "nw_src",
    "ipv4_dst": "nw_dst",
    "icmpv4_type": "icmp_type",
    "icmpv4_code": "icmp_code",
    "ipv6_nd_target": "nd_target",
}


def field_text(field: MatchField) -> str:
    name = _NAMES.get(field.name, field.name)
    value = value_text(field.name, field.value)
    return f"{name}={value}" if field.mask is None else f"{name}={value}/{value_text(field.name, field.mask)}"


def match_text(match: Match) -> list[str]:
    """Prerequisites first: ovs-ofctl reads from left to right."""
    order = {"in_port": 0, "vlan_vid": 1, "eth_type": 2, "ip_proto": 3}
    return [field_text(field) for field in sorted(match, key=lambda field: order.get(field.name, 9))]


def action_text(action: Action) -> str:
    match action:
        case Output(port_no, max_len):
            return f"controller(max_len={max_len})" if port_no == OFPP_CONTROLLER else f"output:{port_no}"
        case ToGroup(group_id):
            return f"group:{group_id}"
        case SetQueue(queue_id):
            return f"set_queue:{queue_id}"
        case SetField(name, value):
            return f"set_field:{value_text(name, value)}->{name}"
        case SetTtl(ttl):
            return f"mod_nw_ttl:{ttl}"
        case DecrementTtl():
            return "dec_ttl"
        case Bundle(ports, basis, fields):
            members = ",".join(map(str, ports))
            return f"bundle({HASH_FIELDS[fields]},{basis},hrw,ofport,members:{members})"


def rule_text(rule: Rule) -> str:
    actions = [f"meter:{rule.meter_id}"] if rule.meter_id is not None else []
    actions += [action_text(action) for action in rule.actions]
    actions += [f"goto_table:{rule.goto_table}"] if rule.goto_table is not None else []
    head = [f"table={rule.table_id}", f"priority={rule.priority}", f"cookie={rule.cookie:#x}"]
    return ",".join([*head, *match_text(rule.match)]) + f",actions={','.join(actions) or 'drop'}"


def delete_text(rule: Rule) -> str:
    """For `ovs-ofctl --strict del-flows`."""
    return ",".join([f"table={rule.table_id}", f"priority={rule.priority}", *match_text(rule.match)])


def bucket_text(bucket: Bucket, kind: GroupKind) -> str:
    parts = ["bucket="]
    if kind is GroupKind.SELECT:
        parts.append(f"weight:{bucket.weight},")
    if bucket.watch_port != OFPP_ANY:
        parts.append(f"watch_port:{bucket.watch_port},")
    actions = ",".join(action_text(action) for action in bucket.actions)
    return "".join(parts) + f"actions={actions or 'drop'}"


def group_text(group: Group) -> str:
    buckets = [bucket_text(bucket, group.kind) for bucket in group.buckets]
    return ",".join([f"group_id={group.group_id}", f"type={_GROUP_TYPES[group.kind]}", *buckets])


def meter_text(meter: Meter) -> str:
    band = f"type=drop,rate={meter.packets_per_second},burst_size={meter.burst_packets}"
    return f"meter={meter.meter_id},pktps,burst,band={band}"


def flow_text(packet: Packet, in_port: int) -> str:
    """The packet as `ofproto/trace` takes it."""
    headers = dict(packet.headers)
    parts = [f"in_port={in_port}"]
    vlan = headers.pop("vlan_vid", 0)
    if vlan:
        parts += [f"dl_vlan={vlan & ~VLAN_PRESENT}", f"dl_vlan_pcp={headers.pop('vlan_pcp', 0)}"]
    if "ip_dscp" in headers:
        parts.append(f"dl_type={hex(headers.pop('eth_type'))},nw_proto={headers.pop('ip_proto')}")
        parts.append(f"nw_tos={headers.pop('ip_dscp') << 2},nw_ecn={headers.pop('ip_ecn')}")
        parts.append(f"nw_ttl={headers.pop('ip_ttl')}")
    else:
        parts.append(f"dl_type={hex(headers.pop('eth_type'))}")
    parts += [f"{_NAMES.get(name, name)}={value_text(name, value)}" for name, value in headers.items()]
    return ",".join(parts)
