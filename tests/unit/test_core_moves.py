"""Live flows move when they must, and when the plan gains enough by it; every move has its reason in the plan."""

import random
from collections import defaultdict
from dataclasses import replace

import pytest
from core_model import KEY, ask, quiet_faults, started
from fabrics import RATE_BPS, leaf, plan

from controller.core import views
from controller.core.commands import Accepted, SearchPlan
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.placement.completion import with_completion
from controller.placement.place import place
from controller.simulation.cables import Cable
from controller.simulation.network import ModelNetwork

SIZE = 1 << 20


def ring(fabric: FabricPlan, job: str = "job", priority: int = 0) -> Collective:
    """Every host to one on the next leaf: each leaf sends and receives a flow for each of its hosts."""
    ranks = tuple(h.name for h in sorted(fabric.hosts, key=lambda h: (h.port, h.switch)))
    return Collective(job, Operation.ALL_REDUCE, Algorithm.RING, ranks, SIZE, priority=priority)


def send(job: str, a: str, b: str, ports: int = 0, priority: int = 0, size: int = SIZE) -> Collective:
    known = (QueuePairPorts(0, 1, tuple(50_000 + n for n in range(ports))),) if ports else ()
    pairs = max(ports, 1)
    direct = (Operation.SEND_RECV, Algorithm.DIRECT)
    return Collective(job, *direct, (a, b), size, queue_pairs=pairs, ports=known, priority=priority)


def spine_cables(fabric: FabricPlan, network: ModelNetwork, name: str) -> list[Cable]:
    return [network.cable(link.a, link.b) for link in fabric.links if link.b == name]


def bring_down(fabric: FabricPlan, network: ModelNetwork, name: str) -> None:
    for cable in spine_cables(fabric, network, name):
        network.cut(cable)
    network.run_until_quiet(60)


def bring_back(fabric: FabricPlan, network: ModelNetwork, name: str) -> None:
    for cable in spine_cables(fabric, network, name):
        network.restore(cable)
    network.run_until_quiet(60)


def uplinks_used(core: Core, number: int) -> int:
    return len({path[0] for path in core.state.paths.values() if path[0].dpid == leaf(number)})


def test_a_spine_that_comes_back_moves_none_of_sixteen_healthy_flows() -> None:
    """Open-kilda#577: only what is down, or would gain, moves when a link returns."""
    fabric = plan(leaves=4, spines=5, hosts=4)
    core, network = started(fabric)
    bring_down(fabric, network, "spine3")
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    before = dict(core.state.paths)
    assert len(before) == 16
    assert core.state.placement is not None
    assert core.state.placement.certificate.proven_optimal
    bring_back(fabric, network, "spine3")
    assert core.state.paths == before
    assert core.state.moves == {}
    assert quiet_faults(network) == []


def test_a_spine_that_comes_back_takes_what_is_crowded_with_reasons_in_the_plan() -> None:
    """Four flows of each leaf shared three uplinks: one of each two that met goes to the spine that is back."""
    fabric = plan(leaves=4, spines=4, hosts=4)
    core, network = started(fabric)
    bring_down(fabric, network, "spine3")
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    before = dict(core.state.paths)
    bring_back(fabric, network, "spine3")
    moved = {unit for unit, path in core.state.paths.items() if path != before[unit]}
    assert len(moved) == 4
    assert core.state.placement is not None
    assert core.state.placement.certificate.proven_optimal
    flows = {(f.src_address, f.dst_address, f.udp_source_port): f for f in views.plans(core, "job")[0].flows}
    for unit, flow in flows.items():
        assert flow.moved_because == ("with 4 moves the fullest link falls by 50.0%" if unit in moved else "")
        was = tuple(PortRef(hop.dpid, hop.port_no) for hop in flow.path_before)
        assert was == (before[unit] if unit in moved else ())
        assert (flow.moved_revision > 0) == (unit in moved)
    assert {f.flow_id for f in views.explain_job(core, "job").moved} == {flows[unit].flow_id for unit in moved}
    assert quiet_faults(network) == []


def crowded(aside_above_flows: int) -> tuple[FabricPlan, Core, ModelNetwork]:
    """Four flows of each leaf share three uplinks, and the fourth spine is about to return."""
    fabric = plan(leaves=4, spines=4, hosts=4)
    settings = CoreSettings(beacon_key=KEY, plan=fabric, aside_above_flows=aside_above_flows)
    core, network = started(fabric, settings=settings)
    bring_down(fabric, network, "spine3")
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    return fabric, core, network


def test_a_search_aside_finds_the_moves_that_are_found_at_once() -> None:
    at_once, aside = crowded(16), crowded(15)
    for fabric, _, network in (at_once, aside):
        bring_back(fabric, network, "spine3")
        assert quiet_faults(network) == []
    assert not at_once[2].record.commands_of(SearchPlan)
    assert len(aside[2].record.commands_of(SearchPlan)) == 1
    assert aside[1].state.paths == at_once[1].state.paths
    reasons = [[move.move.reason for move in core.state.moves.values()] for _, core, _ in (at_once, aside)]
    assert reasons[0] == reasons[1] == ["with 4 moves the fullest link falls by 50.0%"] * 4
    assert aside[1].state.placement is not None
    assert aside[1].state.placement.certificate.proven_optimal


def test_what_a_search_finds_for_a_fabric_that_has_changed_meanwhile_is_left() -> None:
    fabric, core, network = crowded(15)
    for cable in spine_cables(fabric, network, "spine3"):
        network.restore(cable)
    while not network.record.commands_of(SearchPlan):
        network.run_for(0.1)
    bring_down(fabric, network, "spine3")
    assert core.state.moves == {}
    assert quiet_faults(network) == []


def test_a_flow_whose_link_died_says_so_and_a_withdrawn_one_is_forgotten() -> None:
    fabric = plan(leaves=2, spines=3, hosts=1)
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, send("job", "h11", "h21")))
    (path,) = core.state.paths.values()
    used = f"spine{path[0].port_no}"
    network.cut(network.cable("leaf1", used))
    network.run_until_quiet(30)
    (flow,) = views.plans(core, "job")[0].flows
    assert flow.moved_because == "its path is gone"
    assert flow.path_before[0].port_no == path[0].port_no
    ask(network, CollectiveWithdrawn(2, "job"))
    ask(network, CollectiveAnnounced(3, send("job", "h11", "h21")))
    (flow,) = views.plans(core, "job")[0].flows
    assert flow.moved_because == ""


def test_nothing_is_moved_for_a_link_that_does_not_stay() -> None:
    """A spine that comes and goes within the time that counts as calm moves nobody for a better plan."""
    fabric = plan(leaves=2, spines=2, hosts=2)
    core, network = started(fabric, settings=CoreSettings(beacon_key=KEY, plan=fabric, calm_s=20.0))
    bring_down(fabric, network, "spine2")
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    before = dict(core.state.paths)
    for cable in spine_cables(fabric, network, "spine2"):
        network.restore(cable)
    network.run_for(10.0)
    bring_down(fabric, network, "spine2")
    assert core.state.paths == before
    assert core.state.moves == {}
    bring_back(fabric, network, "spine2")
    network.run_for(60.0)
    assert core.state.paths != before
    assert {m.move.reason for m in core.state.moves.values()} == {"with 2 moves the fullest link falls by 50.0%"}


def test_the_more_important_job_gets_the_better_paths() -> None:
    """Two flows on two spines; a third one shares a path, with whichever of the others matters less."""
    fabric = plan(leaves=2, spines=2, hosts=3)
    core, network = started(fabric)
    for number, (job, priority) in enumerate((("low", 0), ("high", 5), ("middle", 3))):
        hosts = (f"h1{number + 1}", f"h2{number + 1}")
        assert isinstance(ask(network, CollectiveAnnounced(number, send(job, *hosts, priority=priority))), Accepted)
    uplink = {unit[0]: path[0] for unit, path in core.state.paths.items()}
    assert uplink["10.0.1.2"] not in (uplink["10.0.1.1"], uplink["10.0.1.3"])


def test_queue_pairs_stay_together_while_that_is_as_good() -> None:
    """Two connections of four queue pairs over two spines need one path each, not eight choices."""
    fabric = plan(leaves=2, spines=2, hosts=3)
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, send("a", "h11", "h21", ports=4)))
    ask(network, CollectiveAnnounced(2, send("b", "h12", "h22", ports=4)))
    assert core.state.placement is not None
    assert core.state.placement.certificate.proven_optimal
    paths = defaultdict(set)
    for unit, path in core.state.paths.items():
        paths[unit[0]].add(path)
    # The first job had the fabric for itself and was split; it makes way when that gains enough.
    assert sum(len(found) for found in paths.values()) <= 4
    ask(network, CollectiveWithdrawn(3, "a"))
    ask(network, CollectiveWithdrawn(4, "b"))
    both = Collective(
        "both",
        Operation.SEND_RECV,
        Algorithm.DIRECT,
        ("h11", "h21", "h12", "h22"),
        SIZE,
        queue_pairs=4,
        ports=tuple(QueuePairPorts(a, b, (50_001, 50_002, 50_003, 50_004)) for a, b in ((0, 1), (2, 3))),
    )
    answer = ask(network, CollectiveAnnounced(5, both))
    assert isinstance(answer, Accepted)
    for source in ("10.0.1.1", "10.0.1.2"):
        assert len({path for unit, path in core.state.paths.items() if unit[0] == source and unit[2]}) == 1


def test_background_is_named_and_the_promise_about_runs_is_at_full_rate() -> None:
    fabric = plan()
    core, network = started(fabric)
    ask(network, CollectiveAnnounced(1, ring(fabric)))
    half = dict.fromkeys(core.state.problem.capacity_bps, RATE_BPS / 2)
    core.state.problem = replace(core.state.problem, background_bps=half)
    core.state.placement = with_completion(core.state.problem, place(core.state.problem), 0.0)
    found = views.explain_job(core, "job")
    assert found.certificate.completion_bound_s == pytest.approx(found.certificate.lower_bound_s / 2)
    assert found.sentences[-1].startswith("8 link directions have measured background, which these figures leave")
    assert "Should it give way, a run still takes" in found.sentences[-1]


def test_loads_equal_the_live_flows_whatever_is_announced_withdrawn_cut_and_restored() -> None:
    fabric = plan(leaves=3, spines=3, hosts=2)
    core, network = started(fabric)
    rng = random.Random(5)
    hosts = [h.name for h in fabric.hosts]
    cables = [network.cable(link.a, link.b) for link in fabric.links]
    down: list[Cable] = []
    for step in range(40):
        what = rng.choice(("announce", "announce", "withdraw", "cut", "restore"))
        if what == "announce":
            a, b = rng.sample(hosts, 2)
            ports, priority = rng.choice((0, 2, 4)), rng.randrange(3)
            job = send(f"job{rng.randrange(8)}", a, b, ports, priority, rng.randrange(1, 9) * SIZE)
            network.inject(CollectiveAnnounced(step, job))
        elif what == "withdraw" and core.state.jobs:
            network.inject(CollectiveWithdrawn(step, rng.choice(sorted(core.state.jobs))))
        elif what == "cut" and len(down) < 3:
            down.append(rng.choice([cable for cable in cables if cable not in down]))
            network.cut(down[-1])
        elif what == "restore" and down:
            network.restore(down.pop(rng.randrange(len(down))))
        network.run_for(rng.choice((0.1, 1.0, 3.0)))
        check_loads(core)
    network.run_until_quiet(120)
    check_loads(core)
    assert quiet_faults(network) == []


def check_loads(core: Core) -> None:
    bits: dict[PortRef, int] = defaultdict(int)
    for job in core.state.jobs.values():
        for flow in job.flows:
            for port in core.state.paths.get((flow.src_address, flow.dst_address, flow.udp_source_port), ()):
                bits[port] += 8 * flow.size_bytes
    if core.state.placement is None or core.state.replan_due_s is not None:
        return
    for port, load_s in core.state.placement.load_s.items():
        assert load_s == pytest.approx(bits.pop(port, 0) / RATE_BPS)
    assert not bits
