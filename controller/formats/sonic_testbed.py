"""SONiC's testbed topologies (ansible/vars/topo_*.yml): one switch under test, its neighbours and its host ports.

It decides what the indices mean: port indices of the switch under test, in the order of its front panel. A neighbour's
n-th entry of `vlans` belongs to its n-th Ethernet interface. Hosts are interfaces of one traffic generator, "ptf".
Source: github.com/sonic-net/sonic-mgmt, docs/testbed/README.testbed.Topology.md (2026).
"""

import re

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.fabric.model import Role
from controller.formats.plan_builder import PlanBuilder
from controller.formats.yaml_tools import Node, read_tree

_TESTER = "ptf"
# "1.5@3": port 5 of the second switch under test, lane 3.
_INDEX = re.compile(r"(?:([0-9]{1,4})\.)?([0-9]{1,4})(?:@([0-9]{1,5}))?")


def read(text: str, filename: str) -> CablingPlan:
    """The plan. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "sonic-testbed")
    root = read_tree(text, builder)
    topology = root.get("topology")
    builder.switch("DUT", topology.line, role=Role.LEAF)
    disabled = {_spelling(index) for index in topology.get("disabled_host_interfaces").each()}
    indices = [index for index in topology.get("host_interfaces").each() if _spelling(index) not in disabled]
    if indices:
        builder.host(_TESTER, topology.get("host_interfaces").line)
    for index in indices:
        if at := _port(index, builder):
            builder.cable(CableEnd(_TESTER, f"eth{at.port}"), at, index.line)
    for name, neighbour in topology.get("VMs").items():
        builder.switch(name, neighbour.line)
        ports = _ports_of(root.get("configuration").get(name))
        for position, index in enumerate(neighbour.get("vlans").each()):
            if at := _port(index, builder):
                builder.cable(at, CableEnd(name, ports[position] if position < len(ports) else ""), index.line)
    return builder.plan("sonic-testbed")


def _ports_of(neighbour: Node) -> list[str]:
    return [name for name, _ in neighbour.get("interfaces").items() if name.startswith("Ethernet")]


def _spelling(index: Node) -> str:
    return index.document.spellings.get(index.location) or str(index.value)


def _port(index: Node, builder: PlanBuilder) -> CableEnd | None:
    # Several switches under test may share one host interface: "0.0,1.0".
    first = _spelling(index).partition(",")[0]
    found = _INDEX.fullmatch(first)
    if found is None:
        shown = first if len(first) <= 20 else first[:17] + "..."
        builder.problem(index.line, f'"{shown}" is no port index', 'write 3, or "0.3@3" with several switches')
        return None
    unit = int(found[1] or 0)
    return CableEnd("DUT" if unit == 0 else f"DUT{unit}", found[2])
