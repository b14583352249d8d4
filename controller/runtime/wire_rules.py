"""Rules, groups and meters between protobuf (link.proto) and `controller.pipeline.rules`, canonical both ways.

Two spellings of one meaning become one value here: match fields are sorted by name, masks over the whole field are
dropped, fields masked to nothing disappear, `max_len` counts only towards the controller, weights only in select
groups.

Foreign rules may hold what has no word here. The policy:
- A *match* with such a field cannot be named, hence neither compared nor deleted: the rule is left out and counted.
- An *action* without a word becomes `UNSUPPORTED`, which equals nothing Heddle writes. So a rule of ours that somebody
  gave such an action is seen as changed, and any such rule can still be deleted, which takes its match only.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from heddle.southbound.v1 import link_pb2 as pb

from controller.pipeline import rules

# The rest of OpenFlow 1.3.5, table 12, so that a foreign rule that uses them is reported and can be removed.
_OTHER_FIELD_BITS = {
    "in_phy_port": 32,
    "metadata": 64,
    "vlan_pcp": 3,
    "sctp_src": 16,
    "sctp_dst": 16,
    "icmpv4_code": 8,
    "arp_sha": 48,
    "arp_tha": 48,
    "ipv6_flabel": 20,
    "ipv6_nd_sll": 48,
    "ipv6_nd_tll": 48,
    "mpls_label": 20,
    "mpls_tc": 3,
    "mpls_bos": 1,
    "pbb_isid": 24,
    "tunnel_id": 64,
    "ipv6_exthdr": 9,
}
_BITS = rules.FIELD_BITS | _OTHER_FIELD_BITS
# OXM carries these two in four bytes though 20 bits would fit in three.
_BYTES = {name: (bits + 7) // 8 for name, bits in _BITS.items()} | {"ipv6_flabel": 4, "mpls_label": 4}

UNSUPPORTED = rules.SetField("unsupported", 0)

_KIND_TO_CORE = {
    pb.Group.KIND_ALL: rules.GroupKind.ALL,
    pb.Group.KIND_SELECT: rules.GroupKind.SELECT,
    pb.Group.KIND_INDIRECT: rules.GroupKind.INDIRECT,
    pb.Group.KIND_FAST_FAILOVER: rules.GroupKind.FAST_FAILOVER,
}
_KIND_TO_WIRE = {core: wire for wire, core in _KIND_TO_CORE.items()}


class UnknownField(Exception):
    """A match field without a word here, or with a value that does not fit it."""


@dataclass(frozen=True, slots=True)
class ReadRules:
    """What a switch holds, and how many rules and groups had to be left out because they cannot be named."""

    tables: rules.SwitchTables
    left_out: int


# --- from the wire -------------------------------------------------------------------------------------


def read_tables(message: pb.Tables) -> ReadRules:
    """Everything in `message` that can be named."""
    found: set[rules.Rule] = set()
    groups: set[rules.Group] = set()
    left_out = 0
    for wire_rule in message.rules:
        try:
            found.add(read_rule(wire_rule))
        except UnknownField:
            left_out += 1
    for wire_group in message.groups:
        if wire_group.kind in _KIND_TO_CORE:
            groups.add(read_group(wire_group))
        else:
            left_out += 1
    meters = frozenset(rules.Meter(m.meter_id, m.packets_per_second, m.burst_packets) for m in message.meters)
    return ReadRules(rules.SwitchTables(frozenset(found), frozenset(groups), meters), left_out)


def read_rule(message: pb.Rule) -> rules.Rule:
    """One flow entry. Raises UnknownField when its match cannot be named."""
    return rules.Rule(
        table_id=message.table_id,
        priority=message.priority,
        match=_read_match(message.match),
        cookie=message.cookie,
        actions=tuple(map(_read_action, message.actions)),
        goto_table=message.goto_table if message.HasField("goto_table") else None,
        meter_id=message.meter_id if message.HasField("meter_id") else None,
    )


def read_group(message: pb.Group) -> rules.Group:
    """One group, of a kind that is known."""
    kind = _KIND_TO_CORE[message.kind]
    weighted = kind is rules.GroupKind.SELECT
    buckets = tuple(
        rules.Bucket(tuple(map(_read_action, b.actions)), b.weight if weighted else 0, b.watch_port)
        for b in message.buckets
    )
    return rules.Group(message.group_id, kind, buckets)


def _read_match(fields: Iterable[pb.MatchField]) -> rules.Match:
    read = [_read_field(f.name, f.value, f.mask) for f in fields]
    return tuple(sorted((f for f in read if f is not None), key=lambda f: f.name))


# Rules repeat the same few fields (eth_type, the addresses of a fabric's hosts) thousands of times.
@lru_cache(maxsize=65536)
def _read_field(name: str, value: bytes, mask: bytes) -> rules.MatchField | None:
    bits = _BITS.get(name)
    if bits is None:
        raise UnknownField(name)
    full = (1 << bits) - 1
    number = int.from_bytes(value, "big")
    if number > full:
        raise UnknownField(f"{name}={value.hex()} does not fit in {bits} bits")
    if not mask:
        return rules.MatchField(name, number)
    masked_by = int.from_bytes(mask, "big") & full
    if masked_by == 0:
        return None
    return rules.MatchField(name, number & masked_by, None if masked_by == full else masked_by)


def _read_output(action: pb.Action) -> rules.Action:
    port = action.output.port_no
    return rules.Output(port, action.output.max_len if port == rules.OFPP_CONTROLLER else 0)


def _read_set_field(action: pb.Action) -> rules.Action:
    field = action.set_field
    try:
        read = _read_field(field.name, field.value, field.mask)
    except UnknownField:
        return UNSUPPORTED
    # OpenFlow 1.3 sets whole fields; a masked one comes from a Nicira extension.
    return rules.SetField(read.name, read.value) if read is not None and read.mask is None else UNSUPPORTED


def _read_bundle(action: pb.Action) -> rules.Action:
    return rules.Bundle(tuple(action.bundle.ports), action.bundle.basis, action.bundle.fields)


_ACTION_READERS: dict[str, Callable[[pb.Action], rules.Action]] = {
    "output": _read_output,
    "group_id": lambda action: rules.ToGroup(action.group_id),
    "queue_id": lambda action: rules.SetQueue(action.queue_id),
    "set_field": _read_set_field,
    "decrement_ttl": lambda _: rules.DecrementTtl(),
    "set_ttl": lambda action: rules.SetTtl(action.set_ttl),
    "bundle": _read_bundle,
}


def _read_action(action: pb.Action) -> rules.Action:
    kind = action.WhichOneof("kind")
    return _ACTION_READERS[kind](action) if kind is not None else UNSUPPORTED


# --- to the wire ---------------------------------------------------------------------------------------


def write_modification(modification: rules.Modification, into: pb.Modification | None = None) -> pb.Modification:
    """One change, `into` the message given or a new one. A deletion carries the rule's key and cookie only: that is
    what names it."""
    message = pb.Modification() if into is None else into
    _MODIFICATION_WRITERS[type(modification)](message, modification)
    return message


def write_rule(rule: rules.Rule) -> pb.Rule:
    """One flow entry, whole."""
    return pb.Rule.FromString(_rule_bytes(rule))


# Rules repeat their parts thousands of times, so each part is serialised once. Protobuf messages may be put together
# from serialised parts (protobuf.dev/programming-guides/encoding, "Last One Wins"): repeated fields are joined.


def _rule_bytes(rule: rules.Rule) -> bytes:
    return _key_bytes(rule) + _effect_bytes(rule.actions, rule.goto_table, rule.meter_id)


def _key_bytes(rule: rules.Rule) -> bytes:
    head = _head_bytes(rule.table_id, rule.priority, rule.cookie)
    return head + b"".join([_field_bytes(name, value, mask) for name, value, mask in rule.match])


@lru_cache(maxsize=65536)
def _head_bytes(table_id: int, priority: int, cookie: int) -> bytes:
    return pb.Rule(table_id=table_id, priority=priority, cookie=cookie).SerializeToString()


@lru_cache(maxsize=65536)
def _field_bytes(name: str, value: int, mask: int | None) -> bytes:
    return pb.Rule(match=[_write_field(name, value, mask)]).SerializeToString()


@lru_cache(maxsize=65536)
def _effect_bytes(actions: tuple[rules.Action, ...], goto_table: int | None, meter_id: int | None) -> bytes:
    return pb.Rule(actions=_write_actions(actions), goto_table=goto_table, meter_id=meter_id).SerializeToString()


def _write_field(name: str, value: int, mask: int | None) -> pb.MatchField:
    width = _BYTES[name]
    masked_by = b"" if mask is None else mask.to_bytes(width, "big")
    return pb.MatchField(name=name, value=value.to_bytes(width, "big"), mask=masked_by)


def write_group(group: rules.Group) -> pb.Group:
    """One group, whole."""
    return pb.Group.FromString(_group_bytes(group))


def _group_bytes(group: rules.Group) -> bytes:
    head = pb.Group(group_id=group.group_id, kind=_KIND_TO_WIRE[group.kind]).SerializeToString()
    return bytes(head + b"".join(map(_bucket_bytes, group.buckets)))


@lru_cache(maxsize=65536)
def _bucket_bytes(bucket: rules.Bucket) -> bytes:
    written = pb.Bucket(weight=bucket.weight, watch_port=bucket.watch_port, actions=_write_actions(bucket.actions))
    return bytes(pb.Group(buckets=[written]).SerializeToString())


def _write_meter(meter: rules.Meter) -> pb.Meter:
    return pb.Meter(
        meter_id=meter.meter_id, packets_per_second=meter.packets_per_second, burst_packets=meter.burst_packets
    )


def _write_bundle(a: rules.Bundle) -> pb.Action:
    return pb.Action(bundle=pb.Bundle(fields=a.fields, basis=a.basis, ports=a.ports))


_ACTION_WRITERS: dict[type, Callable[[Any], pb.Action]] = {
    rules.Output: lambda a: pb.Action(output=pb.Output(port_no=a.port_no, max_len=a.max_len)),
    rules.ToGroup: lambda a: pb.Action(group_id=a.group_id),
    rules.SetQueue: lambda a: pb.Action(queue_id=a.queue_id),
    rules.SetField: lambda a: pb.Action(set_field=_write_field(a.name, a.value, None)),
    rules.DecrementTtl: lambda _: pb.Action(decrement_ttl=True),
    rules.SetTtl: lambda a: pb.Action(set_ttl=a.ttl),
    rules.Bundle: _write_bundle,
}


def _write_actions(actions: Iterable[rules.Action]) -> list[pb.Action]:
    """What has no word cannot be put back: when a roll-back restores such a rule, that one action is missing."""
    return [_write_action(action) for action in actions if action != UNSUPPORTED]


# Actions are frozen values, and a batch repeats the same outputs and groups on every rule.
@lru_cache(maxsize=65536)
def _write_action(action: rules.Action) -> pb.Action:
    return _ACTION_WRITERS[type(action)](action)


def _add_rule(message: pb.Modification, change: rules.AddRule) -> None:
    # A rule without any field set is a rule all the same.
    message.add_rule.SetInParent()
    message.add_rule.MergeFromString(_rule_bytes(change.rule))


def _delete_rule(message: pb.Modification, change: rules.DeleteRule) -> None:
    message.delete_rule.SetInParent()
    message.delete_rule.MergeFromString(_key_bytes(change.rule))


_MODIFICATION_WRITERS: dict[type, Callable[[pb.Modification, Any], object]] = {
    rules.AddRule: _add_rule,
    rules.DeleteRule: _delete_rule,
    rules.AddGroup: lambda w, m: w.add_group.MergeFromString(_group_bytes(m.group)),
    rules.ModifyGroup: lambda w, m: w.modify_group.MergeFromString(_group_bytes(m.group)),
    rules.DeleteGroup: lambda w, m: setattr(w, "delete_group_id", m.group_id),
    rules.AddMeter: lambda w, m: w.add_meter.CopyFrom(_write_meter(m.meter)),
    rules.ModifyMeter: lambda w, m: w.modify_meter.CopyFrom(_write_meter(m.meter)),
    rules.DeleteMeter: lambda w, m: setattr(w, "delete_meter_id", m.meter_id),
    rules.Barrier: lambda w, _: setattr(w, "barrier", True),
}
