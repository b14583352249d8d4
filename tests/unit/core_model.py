"""What tests of the core against model switches share: a running fabric, requests, and what quiet points must show."""

from controller.core.commands import Accepted, Refused, SendBatch
from controller.core.events import Event
from controller.core.machine import Core
from controller.core.planning import unit_id
from controller.core.settings import CoreSettings
from controller.core.state import Unit
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.pipeline.detour import is_detour_rule
from controller.pipeline.diff import is_steering
from controller.pipeline.packet import udp
from controller.pipeline.rules import Barrier, Rule
from controller.pipeline.steering import ROCE_PORT, steer_match
from controller.simulation.network import ModelNetwork
from controller.simulation.walk import check_delivery, walk

KEY = bytes(range(32))
_SOME_PORT = 50_123


def started(fabric: FabricPlan, seed: int = 1, settings: CoreSettings | None = None) -> tuple[Core, ModelNetwork]:
    """A fabric in which everything is found and every host is known."""
    core = Core(settings or CoreSettings(beacon_key=KEY, plan=fabric))
    network = ModelNetwork(fabric, core, seed=seed)
    network.reorders_between_barriers = True
    network.announce_hosts()
    network.run_until_quiet(60)
    return core, network


def ask(network: ModelNetwork, event: Event, max_s: float = 60.0) -> Accepted | Refused:
    """The answer to a request, once everything it led to is done."""
    network.inject(event)
    network.run_until_quiet(max_s)
    answer = network.record.answer(event.request_id)  # type: ignore[union-attr]
    assert answer is not None
    return answer


def all_to_all(fabric: FabricPlan, job: str = "job", size: int = 1 << 30, ports: int = 0) -> Collective:
    """Every host to every other; with `ports` queue pairs of known UDP source ports each."""
    ranks = tuple(h.name for h in fabric.hosts)
    known = tuple(
        QueuePairPorts(a, b, tuple(50_000 + q for q in range(ports)))
        for a in range(len(ranks))
        for b in range(len(ranks))
        if a != b and ports
    )
    pairs = max(1, ports)
    return Collective(job, Operation.ALL_TO_ALL, Algorithm.DIRECT, ranks, size, queue_pairs=pairs, ports=known)


def steer_rules(network: ModelNetwork, name: str) -> list[Rule]:
    return [rule for rule in network.switch(name).tables().rules if is_steering(rule)]


def most_rules(core: Core) -> int:
    """What the fullest switch holds, without detours, which go first where room is short."""
    tables = [s.actual for s in core.state.switches.values() if s.actual is not None]
    return max(sum(not is_detour_rule(rule) for rule in actual.rules.values()) for actual in tables)


def sent(network: ModelNetwork, since_s: float) -> int:
    """Changes sent to switches."""
    batches = network.record.commands_of(SendBatch, since_s=since_s)
    return sum(not isinstance(m, Barrier) for batch in batches for m in batch.modifications)


def matches(rule: Rule, unit: Unit) -> bool:
    """Whether a steering rule catches a packet of a unit."""
    packet = {f.name: f.value for f in steer_match((unit[0], unit[1], unit[2] or _SOME_PORT))}
    full = (1 << 128) - 1
    return all(
        f.name in packet and packet[f.name] & (full if f.mask is None else f.mask) == f.value for f in rule.match
    )


def half_paths(network: ModelNetwork) -> list[str]:
    """Planned units whose packets leave their path, and units left to ECMP that some switch on the way steers."""
    core = network.core
    assert isinstance(core, Core)
    by_address = {host.ipv4_text: host for host in network.hosts.values()}
    found = []
    for unit, path in core.state.paths.items():
        source, destination = by_address[unit[0]], by_address[unit[1]]
        ends = (source.ipv4_text, destination.ipv4_text, source.mac_text, destination.mac_text)
        result = walk(network, udp(*ends, unit[2] or _SOME_PORT, ROCE_PORT), source.name)
        planned = tuple((network.wiring.by_dpid[hop.dpid].name, hop.port_no) for hop in path)
        # What a host below an edge switch sends meets that switch first.
        first = int(source.port.dpid != path[0].dpid)
        if result.delivered != (destination.name,) or result.ports[first : first + len(planned)] != planned:
            found.append(f"{unit_id(unit)} planned over {planned}: {result.explain()}")
    leaf_of = {text: host.port.dpid for host in core.state.view.hosts for text in host.addresses}
    for unit in core.state.refused_units:
        if (*unit[:2], 0) in core.state.paths:
            # Another job has announced everything between the two hosts: it rides along there.
            continue
        for name, switch in network.wiring.switches.items():
            if name.startswith("spine") or switch.dpid == leaf_of[unit[0]]:
                caught = [rule for rule in steer_rules(network, name) if matches(rule, unit)]
                found += [f"{unit_id(unit)} is left to ECMP, but {name} has {rule.match}" for rule in caught]
    return found


def quiet_faults(network: ModelNetwork) -> list[str]:
    """What must not be so at a quiet point, on switches with too little room as well."""
    return [str(v) for v in check_delivery(network)] + half_paths(network) + network.record.ordering_problems()
