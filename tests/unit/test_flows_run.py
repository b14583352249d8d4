"""Whole runs of the flow simulator on small fabrics: jobs, strategies, and everything that can go wrong."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from fabrics import plan

from controller.jobs.collective import Algorithm, Collective, Operation
from controller.simulation.flows import patterns
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.impairments import (
    HostTrouble,
    Impairments,
    LinkTrouble,
    Outage,
    efficiency,
)
from controller.simulation.flows.jobs import Job, Phase, Transfers, collective_transfers, pattern_transfers
from controller.simulation.flows.run import RunResult, Settings, simulate
from controller.simulation.flows.shapes import Shape, planned_view, shaped_view, widened
from controller.simulation.flows.strategies import STRATEGIES
from controller.simulation.flows.wave import Pace

RATE_BPS = 8_000_000
SIZE = 1_600_000
# No headers, so that results are round.
BARE = Settings(header_bytes=0)
RING_S = 2 * 15 / 16 * SIZE * 8 / RATE_BPS


def fabric(leaves: int = 4, spines: int = 4, hosts: int = 4) -> FlowFabric:
    return FlowFabric(planned_view(plan(leaves, spines, hosts, rate_bps=RATE_BPS)))


def crossing(of: FlowFabric) -> list[str]:
    """Host names in turn from each leaf, so that ring neighbours never share one."""
    leaves = sorted(set(of.leaf))
    columns = [[h for h, leaf in zip(of.hosts, of.leaf, strict=True) if leaf == each] for each in leaves]
    return [column[row] for row in range(len(columns[0])) for column in columns]


def ring_job(of: FlowFabric, name: str = "ring", ranks: Sequence[str] = (), **more: object) -> Job:
    names = tuple(ranks) or tuple(crossing(of))
    collective = Collective(name, Operation.ALL_REDUCE, Algorithm.RING, names, SIZE)
    transfers = collective_transfers(of, [collective], name)
    return Job(name, (Phase(0.0, transfers),), tuple(of.host_number[n] for n in names), **more)  # type: ignore[arg-type]


def took(result: RunResult, job: int = 0) -> float:
    completion_s = result.jobs[job].completion_s
    assert completion_s is not None
    return completion_s


def uplink(of: FlowFabric, name: str = "leaf1-spine1") -> tuple[int, ...]:
    return dict(of.cables())[name]


# --- strategies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["heddle", "ideal", "heddle-split-4"])
def test_without_collisions_a_ring_takes_what_the_formula_says(name: str) -> None:
    of = fabric()
    assert took(simulate(of, [ring_job(of)], STRATEGIES[name], settings=BARE)) == pytest.approx(RING_S)


def test_headers_take_their_share() -> None:
    of = fabric()
    settings = Settings(payload_bytes=1000, header_bytes=82)
    assert took(simulate(of, [ring_job(of)], STRATEGIES["heddle"], settings=settings)) == pytest.approx(RING_S * 1.082)


@pytest.mark.parametrize("name", ["ecmp-1", "ecmp-4", "hedera-first-fit", "hedera-annealing", "least-loaded", "greedy"])
def test_a_ring_takes_as_long_as_its_fullest_link(name: str) -> None:
    of = fabric()
    result = simulate(of, [ring_job(of)], STRATEGIES[name], 3, settings=BARE)
    assert took(result) == pytest.approx(result.link_bits.max() / RATE_BPS, rel=0.05)
    assert took(result) >= RING_S * (1 - 1e-9)
    # Every flow crosses one uplink and one downlink, whatever the strategy.
    assert result.link_bits[: of.ports].sum() == pytest.approx(2 * 16 * RING_S * RATE_BPS)


def test_twice_the_uplinks_are_twice_the_spines() -> None:
    of = fabric()
    wide = FlowFabric(widened(of.view))
    assert wide.ports == 2 * of.ports
    assert wide.hosts == of.hosts
    narrow = np.mean([took(simulate(of, [ring_job(of)], STRATEGIES["ecmp-1"], s, settings=BARE)) for s in range(8)])
    wider = np.mean(
        [took(simulate(wide, [ring_job(of)], STRATEGIES["ecmp-1-wide"], s, settings=BARE)) for s in range(8)]
    )
    assert wider < narrow


@pytest.mark.parametrize("name", [n for n, s in STRATEGIES.items() if not s.wider])
def test_three_tiers_carry_what_crosses_pods(name: str) -> None:
    of = FlowFabric(shaped_view(Shape(2, 2, 2, RATE_BPS, RATE_BPS, pods=2, cores=2, core_bps=RATE_BPS)))
    result = simulate(of, [ring_job(of, ranks=of.hosts)], STRATEGIES[name], 1, settings=BARE)
    assert took(result) >= 2 * 7 / 8 * SIZE * 8 / RATE_BPS * (1 - 1e-9)
    assert not result.stranded


# --- jobs ------------------------------------------------------------------------------------------------


def test_iterations_repeat_computing_and_sending() -> None:
    of = fabric()
    job = ring_job(of, iterations=3)
    job = replace(job, phases=(replace(job.phases[0], compute_s=0.5),))
    result = simulate(of, [job], STRATEGIES["heddle"], settings=BARE)
    assert result.jobs[0].iteration_s == pytest.approx([0.5 + RING_S] * 3)
    assert result.jobs[0].computing_s == pytest.approx(1.5)
    assert result.jobs[0].sending_s == pytest.approx(3 * RING_S)
    assert result.link_bits.max() == pytest.approx(3 * RING_S * RATE_BPS)
    # The course of links over time adds up to the same.
    assert (result.bins_bps.sum(axis=0) * result.bin_s).max() == pytest.approx(3 * RING_S * RATE_BPS)


def test_two_jobs_on_one_link_share_it_only_while_both_send() -> None:
    of = fabric(2, 1, 2)
    a, b = ([(of.host_number[f"h1{n}"], of.host_number[f"h2{n}"])] for n in (1, 2))
    jobs = [
        Job("a", (Phase(0.0, pattern_transfers(a, SIZE, "a")),), a[0]),
        Job("b", (Phase(0.0, pattern_transfers(b, SIZE, "b")),), b[0], start_s=0.8),
    ]
    result = simulate(of, jobs, STRATEGIES["heddle"], settings=BARE)
    # Alone for 0.8 s of 1.6; then both at half the rate; what is left of b alone.
    assert [took(result, n) for n in (0, 1)] == pytest.approx([2.4, 2.4])
    assert result.duration_s == pytest.approx(3.2)


def test_ranks_of_one_server_send_nothing_to_each_other() -> None:
    of = fabric()
    collective = Collective("j", Operation.ALL_REDUCE, Algorithm.RING, of.hosts, SIZE, ranks_per_host=4)
    transfers = collective_transfers(of, [collective], "j")
    assert len(transfers) == 4
    # They wait for one another as servers: all steps one after the other.
    job = Job("j", (Phase(0.0, transfers),), ())
    assert took(simulate(of, [job], STRATEGIES["heddle"], settings=BARE)) == pytest.approx(RING_S)


@pytest.mark.parametrize(
    ("operation", "algorithm", "factor"),
    [
        (Operation.ALL_REDUCE, Algorithm.HALVING_DOUBLING, 2 * 15 / 16),
        (Operation.ALL_GATHER, Algorithm.RING, 15 / 16),
        (Operation.REDUCE_SCATTER, Algorithm.HALVING_DOUBLING, 15 / 16),
        (Operation.ALL_TO_ALL, Algorithm.DIRECT, 15 / 16),
        (Operation.SEND_RECV, Algorithm.RING, 1.0),
    ],
)
def test_collectives_without_collisions_take_what_the_formulas_say(
    operation: Operation, algorithm: Algorithm, factor: float
) -> None:
    of = fabric()
    collective = Collective("j", operation, algorithm, of.hosts, SIZE)
    job = Job("j", (Phase(0.0, collective_transfers(of, [collective], "j")),), ())
    # Ideal spraying, so that nothing collides that needs not.
    assert took(simulate(of, [job], STRATEGIES["ideal"], settings=BARE)) == pytest.approx(factor * SIZE * 8 / RATE_BPS)


def test_a_collective_at_once_is_one_transfer_for_each_connection() -> None:
    of = fabric()
    collective = Collective("j", Operation.ALL_REDUCE, Algorithm.RING, tuple(crossing(of)), SIZE)
    transfers = collective_transfers(of, [collective], "j", Pace.AT_ONCE)
    assert set(transfers.steps.tolist()) == {1}
    job = Job("j", (Phase(0.0, transfers),), ())
    assert took(simulate(of, [job], STRATEGIES["heddle"], settings=BARE)) == pytest.approx(RING_S)


# --- trouble ---------------------------------------------------------------------------------------------


def one_flow(of: FlowFabric) -> Job:
    ends = [(of.host_number["h11"], of.host_number["h21"])]
    return Job("one", (Phase(0.0, pattern_transfers(ends, SIZE, "one")),), ends[0])


ALONE_S = SIZE * 8 / RATE_BPS


def test_a_flow_waits_while_its_only_link_is_gone() -> None:
    of = fabric(2, 1, 1)
    gone = LinkTrouble(uplink(of), 0.5, 2.0, rate=0.0)
    result = simulate(of, [one_flow(of)], STRATEGIES["heddle"], impairments=Impairments((gone,)), settings=BARE)
    # It goes on when the switches have noticed that the link is back.
    assert took(result) == pytest.approx(ALONE_S + 1.5 + BARE.failover_s)


def test_a_flow_that_no_path_serves_is_named_and_its_job_does_not_end() -> None:
    of = fabric(2, 1, 1)
    gone = Impairments((LinkTrouble(uplink(of), rate=0.0),))
    result = simulate(of, [one_flow(of)], STRATEGIES["heddle"], impairments=gone, settings=BARE)
    assert result.jobs[0].completion_s is None
    assert result.stranded == ("one/h11>h21",)


def test_switches_pass_over_a_dead_link_within_their_time() -> None:
    of = fabric(2, 2, 1)
    both = [LinkTrouble(uplink(of, f"leaf1-spine{n}"), 0.5, rate=0.0) for n in (1, 2)]
    # Whichever of the two carries the flow: one run loses nothing, the other just the time of the fail-over.
    found = sorted(
        took(simulate(of, [one_flow(of)], STRATEGIES["ecmp-1"], impairments=Impairments((each,)), settings=BARE))
        for each in both
    )
    assert found == pytest.approx([ALONE_S, ALONE_S + BARE.failover_s])


def test_a_controller_puts_right_what_fail_over_did_unless_it_is_away() -> None:
    of = fabric(4, 4, 4)
    # Half the hosts of each leaf, so that three uplinks have room for all of it.
    job = ring_job(of, ranks=crossing(of)[:8])
    cut = LinkTrouble(uplink(of, "leaf1-spine1"), 0.5, rate=0.0)
    alone_s = took(simulate(of, [job], STRATEGIES["heddle"], settings=BARE))
    found = {}
    for outage_s in (0.0, 2.0):
        outages = (Outage(0.4, 0.4 + outage_s),) if outage_s else ()
        for seed in range(6):
            result = simulate(of, [job], STRATEGIES["heddle"], seed, Impairments((cut,), outages=outages), BARE)
            found[outage_s, seed] = took(result)
    with_controller, without = (max(found[o, s] for s in range(6)) for o in (0.0, 2.0))
    assert alone_s <= with_controller <= alone_s + 0.2
    assert without > with_controller + 0.2


def test_a_slow_link_that_is_known_is_used_less() -> None:
    of = fabric(2, 2, 2)
    ends = [(of.host_number[f"h1{n}"], of.host_number[f"h2{n}"]) for n in (1, 2)]
    job = Job("j", (Phase(0.0, pattern_transfers(ends, SIZE, "j")),), ())
    slow = LinkTrouble(uplink(of), rate=0.25)
    seen = took(simulate(of, [job], STRATEGIES["heddle"], impairments=Impairments((slow,)), settings=BARE))
    unseen = Impairments((replace(slow, seen=False),))
    assert seen == pytest.approx(2 * ALONE_S)
    assert took(simulate(of, [job], STRATEGIES["heddle"], impairments=unseen, settings=BARE)) == pytest.approx(
        4 * ALONE_S
    )


@pytest.mark.parametrize(("window", "factor"), [(1, 1 / 0.9), (64, (0.9 + 0.1 * 64) / 0.9)])
def test_a_lossy_link_costs_what_is_sent_again(window: int, factor: float) -> None:
    of = fabric(2, 1, 1)
    lossy = Impairments((LinkTrouble(uplink(of)[:1], loss=0.1, seen=False),))
    settings = replace(BARE, window_packets=window)
    result = simulate(of, [one_flow(of)], STRATEGIES["heddle"], impairments=lossy, settings=settings)
    assert efficiency(0.1, window) == pytest.approx(1 / factor)
    assert took(result) == pytest.approx(ALONE_S * factor)
    assert result.link_bits.max() == pytest.approx(SIZE * 8 * factor)


def test_a_slow_host_holds_up_everybodys_computing() -> None:
    of = fabric(2, 2, 1)
    job = Job("j", (Phase(1.0), Phase(1.0)), (0, 1))
    slow = Impairments(hosts=(HostTrouble(1, 3.0, end_s=2.0),))
    assert took(simulate(of, [job], STRATEGIES["heddle"], impairments=slow)) == pytest.approx(4.0)


def test_jobs_of_one_name_are_refused() -> None:
    of = fabric(2, 2, 1)
    with pytest.raises(ValueError, match="same name"):
        simulate(of, [one_flow(of), one_flow(of)], STRATEGIES["heddle"])


# --- patterns --------------------------------------------------------------------------------------------


def test_patterns_are_what_their_names_say() -> None:
    hosts = list(range(12))
    rng = random.Random(5)
    assert patterns.stride(hosts, 4)[:2] == [(0, 4), (1, 5)]
    assert patterns.stride(hosts, 4)[-1] == (11, 3)
    derangement = patterns.permutation(hosts, rng)
    assert sorted(a for a, _ in derangement) == sorted(b for _, b in derangement) == hosts
    assert all(a != b for a, b in derangement)
    assert patterns.permutation([7], rng) == []
    fan_in = patterns.incast(hosts, 3, 5, rng)
    assert len({a for a, _ in fan_in}) == 5
    assert {b for _, b in fan_in} == {3}
    assert len(patterns.all_to_all(hosts)) == 12 * 11


@pytest.mark.parametrize(("same_leaf", "same_pod"), [(1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_staggered_ends_lie_where_they_should(same_leaf: float, same_pod: float) -> None:
    hosts = list(range(16))
    found = patterns.staggered(hosts, lambda h: h // 2, lambda h: h // 4, same_leaf, same_pod, random.Random(1))
    assert len(found) == 16
    assert all((a // 2 == b // 2) == (same_leaf == 1.0) for a, b in found)
    assert all((a // 4 == b // 4) == (same_leaf + same_pod == 1.0) for a, b in found)


def test_transfers_add_up_channel_by_channel() -> None:
    of = fabric(2, 2, 1)
    rings = ((0, 1), (0, 1))
    collective = Collective("j", Operation.ALL_REDUCE, Algorithm.RING, of.hosts, 1000, rings=rings)
    transfers: Transfers = collective_transfers(of, [collective], "j")
    assert dict(transfers.ends()) == {(0, 1): 1000, (1, 0): 1000}
