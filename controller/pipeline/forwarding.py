"""What a switch does with one packet: tables, actions, groups.

The semantics are those of OpenFlow 1.3.5 as Open vSwitch 3.1 carries them out (tests/openvswitch compares the two):

- a table miss drops; apply-actions run in order; then `goto_table`;
- `output` never sends a packet back out of the port it came in on, except by OFPP_IN_PORT;
- a TTL that cannot be decremented drops the packet there and then (inside a bucket: ends that bucket);
- a bucket is an action *set*: it is reordered (decrement TTL, set fields, output), of several outputs only the last
  counts, a group beats an output, and a bundle in it is ignored;
- what a bucket changed in the packet is undone after the group.
"""

from collections.abc import Sequence

from controller.pipeline.flow_table import Entry
from controller.pipeline.hashing import HASH_SYMMETRIC_L3L4_UDP, flow_hash, stable_hash
from controller.pipeline.outcome import Choice, Outcome, Punt, Sent, Step, Tables
from controller.pipeline.packet import Packet
from controller.pipeline.rules import (
    OFPP_ANY,
    OFPP_CONTROLLER,
    OFPP_IN_PORT,
    Action,
    Bundle,
    DecrementTtl,
    Group,
    GroupKind,
    Output,
    Rule,
    SetField,
    SetQueue,
    SetTtl,
    ToGroup,
)

OFPP_TABLE = 0xFFFFFFF9
OFPP_FLOOD = 0xFFFFFFFB
OFPP_ALL = 0xFFFFFFFC
_MAX_GROUP_DEPTH = 64  # Open vSwitch's MAX_DEPTH


def as_action_set(actions: Sequence[Action]) -> tuple[Action, ...]:
    """A bucket's actions in the order in which an action set runs (OpenFlow 1.3.5, section 5.10)."""
    first = [action for action in actions if isinstance(action, DecrementTtl)][:1]
    middle = [action for action in actions if isinstance(action, SetField | SetTtl | SetQueue)]
    groups = [action for action in actions if isinstance(action, ToGroup)]
    outputs = [action for action in actions if isinstance(action, Output)]
    return (*first, *middle, *(groups or outputs)[-1:])


class Traversal:
    """One packet on its way through one switch. Use `forward`."""

    def __init__(
        self, tables: Tables, packet: Packet, in_port: int, *, dry_run: bool, every_choice: bool = False
    ) -> None:
        self._tables = tables
        self._dry_run = dry_run
        self._every_choice = every_choice
        self._by_hash = False
        self._packet = packet
        self._in_port = in_port
        self._headers: dict[str, int] = {**packet.headers, "in_port": in_port}
        self._queue: int | None = None
        self._rule: Rule | None = None
        self._depth = 0
        self._sent: list[Sent] = []
        self._punts: list[Punt] = []
        self._drops: list[str] = []
        self._rules: list[Rule] = []
        self._rivals: list[Rule] = []
        self._steps: list[Step] = []
        self._choices: list[Choice] = []

    def run_tables(self) -> None:
        table_id: int | None = 0
        while table_id is not None:
            entry = self._tables.hit(table_id, self._headers)
            if entry is None:
                self._steps.append(Step(table_id, None))
                self._drops.append(f"table {table_id}: no rule matches")
                return
            self._rule = rule = entry.rule
            self._rules.append(rule)
            if self._dry_run:
                self._rivals += [rival.rule for rival in self._tables.rivals(table_id, self._headers, entry)]
            elif not self._conforms(entry):
                self._drops.append(f"table {table_id}: over the rate of meter {rule.meter_id}")
                return
            lives = self.apply(rule.actions)
            if self._dry_run:
                self._steps.append(Step(table_id, rule, tuple(self._choices)))
                self._choices.clear()
            if not lives:
                return
            table_id = rule.goto_table

    def _conforms(self, entry: Entry) -> bool:
        """Counts the packet on the rule; False when the rule's meter drops it."""
        self._tables.count(entry, self._packet.size_bytes)
        return entry.rule.meter_id is None or self._tables.conforms(entry.rule.meter_id)

    def outcome(self) -> Outcome:
        if not (self._sent or self._punts or self._drops):
            self._drops.append(f"table {self._rule.table_id if self._rule else 0}: the rule has no output")
        drops, rivals = tuple(self._drops), tuple(self._rivals)
        rules, steps = tuple(self._rules), tuple(self._steps)
        return Outcome(tuple(self._sent), tuple(self._punts), drops, rules, rivals, steps)

    def apply(self, actions: Sequence[Action]) -> bool:
        """Runs actions in order; False when the packet died on the way."""
        for action in actions:
            match action:
                case Output():
                    self._output(action)
                case ToGroup():
                    self._to_group(action.group_id)
                case Bundle():
                    self._bundle(action)
                case SetQueue():
                    self._queue = action.queue_id
                case SetField():
                    # A field the packet does not have stays absent.
                    if action.name in self._headers:
                        self._headers[action.name] = action.value
                case SetTtl():
                    if "ip_ttl" in self._headers:
                        self._headers["ip_ttl"] = action.ttl
                case DecrementTtl():
                    if not self._decrement_ttl():
                        return False
        return True

    def _decrement_ttl(self) -> bool:
        ttl = self._headers.get("ip_ttl")
        if ttl is None:
            return True
        if ttl <= 1:
            self._drops.append("the TTL ran out")
            return False
        self._headers["ip_ttl"] = ttl - 1
        return True

    def _output(self, action: Output) -> None:
        if action.port_no == OFPP_CONTROLLER:
            table_id, cookie = (self._rule.table_id, self._rule.cookie) if self._rule else (0, 0)
            self._punts.append(Punt(self._in_port, self._as_packet(), table_id, cookie, action.max_len))
        elif action.port_no in (OFPP_ALL, OFPP_FLOOD):
            for port_no in self._tables.port_numbers():
                if port_no != self._in_port:
                    self._send(port_no)
        elif action.port_no == OFPP_IN_PORT:
            self._send(self._in_port)
        elif action.port_no == self._in_port:
            self._drops.append(f"output to port {action.port_no}, where it came in")
        else:
            self._send(action.port_no)

    def _send(self, port_no: int) -> None:
        if port_no not in self._tables.port_numbers():
            self._drops.append(f"output to port {port_no}, which does not exist")
        else:
            self._sent.append(Sent(port_no, self._as_packet(), self._queue, self._by_hash))

    def _as_packet(self) -> Packet:
        headers = dict(self._headers)
        del headers["in_port"]
        return Packet(headers, self._packet.payload)

    def _bundle(self, bundle: Bundle) -> None:
        live = [position for position, port_no in enumerate(bundle.ports) if self._tables.is_live(port_no)]
        taken = self._hashed_member(bundle, live)
        self._note(bundle, live, taken)
        if not live:
            self._drops.append("no member of the bundle is live")
        around, self._by_hash = self._by_hash, self._by_hash or len(taken) > 1
        for position in taken:
            self._output(Output(bundle.ports[position]))
        self._by_hash = around

    def _hashed_member(self, bundle: Bundle, live: Sequence[int]) -> Sequence[int]:
        """Highest random weight: each member's score is a hash of flow and position; the best live one wins."""
        if self._every_choice:
            # A port listed twice is more likely, but no other way to go.
            return sorted({bundle.ports[position]: position for position in reversed(live)}.values())
        flow = stable_hash(flow_hash(self._headers, bundle.fields, bundle.basis), self._tables.hash_salt)
        return [max(live, key=lambda position: stable_hash(flow, position))] if live else []

    def _to_group(self, group_id: int) -> None:
        group = self._tables.group(group_id)
        if group is None:
            self._drops.append(f"group {group_id} does not exist")
            return
        if self._depth >= _MAX_GROUP_DEPTH:
            self._drops.append(f"groups nest deeper than {_MAX_GROUP_DEPTH} at group {group_id}")
            return
        live = [
            n for n, b in enumerate(group.buckets) if b.watch_port == OFPP_ANY or self._tables.is_live(b.watch_port)
        ]
        taken = self._choose(group, live)
        self._note(group, live, taken)
        if not taken and group.kind in (GroupKind.FAST_FAILOVER, GroupKind.SELECT):
            self._drops.append(f"group {group_id}: no bucket is live")
        around, headers, queue = self._by_hash, self._headers, self._queue
        self._by_hash = around or (group.kind is GroupKind.SELECT and len(taken) > 1)
        self._depth += 1
        for position in taken:
            self._headers = dict(headers)
            actions = as_action_set(group.buckets[position].actions)
            # An empty bucket is there to do nothing.
            if actions and not isinstance(actions[-1], Output | ToGroup):
                self._drops.append(f"group {group_id}: the bucket has no output")
            self.apply(actions)
            self._queue = queue
        self._headers = headers
        self._depth -= 1
        self._by_hash = around

    def _choose(self, group: Group, live: Sequence[int]) -> Sequence[int]:
        """Positions of the buckets that get the packet."""
        if group.kind in (GroupKind.ALL, GroupKind.INDIRECT):
            return range(len(group.buckets))
        if group.kind is GroupKind.FAST_FAILOVER:
            return live[:1]
        weighted = [position for position in live if group.buckets[position].weight]
        if self._every_choice or not weighted:
            return weighted
        total = sum(group.buckets[position].weight for position in weighted)
        flow = flow_hash(self._headers, HASH_SYMMETRIC_L3L4_UDP, group.group_id)
        point = stable_hash(flow, self._tables.hash_salt) % total
        for position in weighted:
            point -= group.buckets[position].weight
            if point < 0:
                return (position,)
        raise AssertionError("a point below the total weight lies in some bucket")

    def _note(self, of: Group | Bundle, live: Sequence[int], taken: Sequence[int]) -> None:
        if self._dry_run:
            self._choices.append(Choice(of, tuple(live), tuple(taken)))


def forward(tables: Tables, packet: Packet, in_port: int, *, dry_run: bool = False) -> Outcome:
    """Takes a packet that came in on `in_port` through the tables, from table 0 on.

    A dry run leaves counters and meters alone and looks for rival rules instead.
    """
    traversal = Traversal(tables, packet, in_port, dry_run=dry_run)
    traversal.run_tables()
    return traversal.outcome()


def forward_every_way(tables: Tables, packet: Packet, in_port: int) -> Outcome:
    """A dry run that takes every live choice of a hash, because another switch's hash is not ours to know."""
    traversal = Traversal(tables, packet, in_port, dry_run=True, every_choice=True)
    traversal.run_tables()
    return traversal.outcome()


def send_out(tables: Tables, packet: Packet, in_port: int, actions: Sequence[Action]) -> Outcome:
    """Carries out the actions of a packet-out."""
    if any(isinstance(action, Output) and action.port_no == OFPP_TABLE for action in actions):
        return forward(tables, packet, in_port)
    traversal = Traversal(tables, packet, in_port, dry_run=False)
    traversal.apply(actions)
    return traversal.outcome()
