"""The model switch and Open vSwitch side by side, for tests that compare them.

Open vSwitch runs with its dummy datapath: the real translation of rules, ports that are only numbers. A packet's fate
is read from `ofproto/trace`.
"""

import json
import re
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from controller.fabric.model import Port, PortRef
from controller.pipeline.packet import (
    Packet,
)
from controller.pipeline.rules import (
    AddGroup,
    AddMeter,
    AddRule,
    Group,
    Meter,
    Rule,
)
from controller.simulation.switches import ModelSwitch
from tests.openvswitch.ofctl_text import flow_text, group_text, meter_text, rule_text
from tests.openvswitch.private_ovs import PrivateOvs

PORTS = range(1, 7)
BRIDGE = "br0"
# Enough for every combination of choices that the rule sets below can make to come up.
SALTS = range(150)
MACS = ("eth_src", "eth_dst")


# --- Open vSwitch -----------------------------------------------------------------------------------------


class DummyOvs(PrivateOvs):
    """Open vSwitch with a datapath that needs no interfaces, in a network namespace of its own."""

    def __enter__(self) -> "DummyOvs":
        super().__enter__()
        return self

    def _spawn(self, program: str, *arguments: str) -> None:
        extra = ["--enable-dummy", f"--unixctl={self.control}"] if program == "ovs-vswitchd" else []
        with (self.run_dir / f"{program}.out").open("wb") as output:
            command = ["unshare", "--net", program, *arguments, *extra]
            process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self._processes.append(process)

    @property
    def control(self) -> str:
        return f"{self.run_dir}/vswitchd.ctl"

    def ask(self, method: str, *arguments: str) -> str:
        """What `ovs-appctl` would print, without a process for every question."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(self.control)
            connection.sendall(json.dumps({"id": 0, "method": method, "params": arguments}).encode())
            data = b""
            while True:
                data += connection.recv(65536)
                try:
                    answer = json.loads(data)
                except ValueError:
                    continue
                assert answer["error"] is None, answer["error"]
                return str(answer["result"])

    def add_groups(self, groups: list[Group]) -> None:
        """Select groups hash in the translation: the default, hashing in the datapath, is not followed by a trace.

        The members are the same; that choice can only be spelt in OpenFlow 1.5.
        """
        method = "type=select,selection_method=hash,fields(ip_src,ip_dst,ipv6_src,ipv6_dst)"
        texts = [group_text(group).replace("type=select", method) for group in groups]
        file = self.run_dir / "groups"
        file.write_text("".join(f"{text}\n" for text in texts))
        self._run("ovs-ofctl", "-O", "OpenFlow15", "add-groups", BRIDGE, str(file))

    def add_rules(self, rules: list[Rule]) -> None:
        file = self.run_dir / "rules"
        file.write_text("".join(f"{rule_text(rule)}\n" for rule in rules))
        self.ofctl("add-flows", BRIDGE, str(file))

    def set_up(self, port_no: int, up: bool) -> None:
        self.ask("netdev-dummy/set-admin-state", f"p{port_no}", "up" if up else "down")
        state = "LIVE" if up else "LINK_DOWN"
        for _ in range(1000):
            text = self.ofctl("show", BRIDGE)
            if re.search(rf" {port_no}\(p{port_no}\):.*?state: +(\w+)", text, re.DOTALL).group(1) == state:  # type: ignore[union-attr]
                return
        raise AssertionError(f"port {port_no} does not become {state}: {text}")


@contextmanager
def dummy_ovs() -> Iterator[DummyOvs]:
    """Running, with one bridge and its ports."""
    with DummyOvs() as running:
        running.vsctl("add-br", BRIDGE, "--", "set", "bridge", BRIDGE, "datapath_type=dummy", "fail_mode=secure")
        running.vsctl("set", "bridge", BRIDGE, "protocols=OpenFlow13,OpenFlow15")
        for port in PORTS:
            interface = ["--", "set", "interface", f"p{port}", "type=dummy", f"ofport_request={port}"]
            running.vsctl("add-port", BRIDGE, f"p{port}", *interface)
        yield running


# --- both -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fate:
    """(port, DSCP, TTL, source MAC, destination MAC) of each output, in order, and how often the packet is punted."""

    outputs: tuple[tuple[int, int | None, int | None, int, int], ...]
    punts: int

    @property
    def in_any_order(self) -> frozenset[tuple[object, int]]:
        return frozenset(Counter(self.outputs).items())


class Pair:
    """A model switch and Open vSwitch's bridge with the same tables and ports."""

    def __init__(self, ovs: DummyOvs) -> None:
        self.ovs = ovs
        ports = [Port(PortRef(1, n), f"p{n}", f"02:00:00:00:00:{n:02x}", True) for n in PORTS]
        self.model = ModelSwitch(1, BRIDGE, ports)
        for table in ("del-flows", "del-groups", "del-meters"):
            ovs.ofctl(table, BRIDGE)
        for port in PORTS:
            ovs.set_up(port, True)

    def load(self, rules: list[Rule], groups: list[Group] = [], meters: list[Meter] = []) -> None:  # noqa: B006
        refused = self.model.execute([*map(AddMeter, meters), *map(AddGroup, groups), *map(AddRule, rules)])
        assert refused == ()
        for meter in meters:
            self.ovs.ofctl("add-meter", BRIDGE, meter_text(meter))
        self.ovs.add_groups(groups)
        self.ovs.add_rules(rules)

    def set_up(self, port_no: int, up: bool) -> None:
        self.model.set_port_up(port_no, up)
        self.ovs.set_up(port_no, up)

    def model_fate(self, packet: Packet, in_port: int) -> Fate:
        outcome = self.model.forward(packet, in_port, dry_run=True)
        assert not outcome.rivals, "OpenFlow does not say which rule applies: nothing to compare"
        outputs = [
            (s.port_no, s.packet.get("ip_dscp"), s.packet.get("ip_ttl"), *(s.packet.headers[end] for end in MACS))
            for s in outcome.sent
        ]
        return Fate(tuple(outputs), len(outcome.punts))

    def model_fates(self, packet: Packet, in_port: int) -> list[Fate]:
        """What the model can do, whatever its hash."""
        fates = []
        for self.model.hash_salt in SALTS:
            fates.append(self.model_fate(packet, in_port))
        self.model.hash_salt = 0
        return fates

    def trace(self, packet: Packet, in_port: int) -> str:
        return self.ovs.ask("ofproto/trace", BRIDGE, flow_text(packet, in_port))

    def agree(self, packet: Packet, in_port: int) -> None:
        trace = self.trace(packet, in_port)
        mine, theirs = self.model_fate(packet, in_port), read_trace(trace, packet)
        assert mine == theirs, f"{mine}\n{theirs}\n{trace}"

    def agree_up_to_hash(self, packet: Packet, in_port: int) -> None:
        trace = self.trace(packet, in_port)
        theirs = read_trace(trace, packet)
        possible = {(fate.in_any_order, fate.punts) for fate in self.model_fates(packet, in_port)}
        assert (theirs.in_any_order, theirs.punts) in possible, f"{possible}\n{theirs}\n{trace}"


_SETTER = re.compile(r"(?<![a-z])(tos|ttl|tclass|hlimit|src|dst)=([0-9a-fx:.]+)")


def read_trace(trace: str, packet: Packet) -> Fate:
    """The fate of a packet from the datapath actions of `ofproto/trace`, which set fields only when it is needed."""
    dscp, ttl, macs = packet.get("ip_dscp"), packet.get("ip_ttl"), {end: packet.headers[end] for end in MACS}
    outputs, punts = [], 0
    lines = re.findall(r"^Datapath actions: (.*)$", trace, re.MULTILINE)
    assert lines, trace
    for action in (action for line in lines for action in split_actions(line)):
        if action.isdigit():
            outputs.append((int(action), dscp, ttl, *macs.values()))
        elif action.startswith("userspace"):
            # Reason 2: a TTL that ran out. A controller has to ask for those, and ours does not.
            punts += "reason=2" not in action
        elif action.startswith("set("):
            for name, value in _SETTER.findall(action):
                if name in ("tos", "tclass"):
                    dscp = int(value, 16) >> 2
                elif name in ("ttl", "hlimit"):
                    ttl = int(value)
                elif action.startswith("set(eth"):
                    macs[f"eth_{name}"] = int(value.replace(":", ""), 16)
    return Fate(tuple(outputs), punts)


def split_actions(line: str) -> Iterator[str]:
    """Splits at commas outside of parentheses."""
    depth, start = 0, 0
    for index, character in enumerate(f"{line},"):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            yield line[start:index]
            start = index + 1
