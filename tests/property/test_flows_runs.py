"""Whatever jobs run and whatever fails and returns: every byte leaves its host once, and no link is over its rate."""

from collections import defaultdict

import numpy as np
import pytest
from fabrics import plan
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.jobs.collective import Algorithm, Collective, Operation
from controller.jobs.edges import SUPPORTED
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.impairments import Impairments, LinkTrouble, Outage
from controller.simulation.flows.jobs import Job, Phase, Transfers, collective_transfers, pattern_transfers
from controller.simulation.flows.run import Settings, simulate
from controller.simulation.flows.shapes import planned_view
from controller.simulation.flows.strategies import STRATEGIES
from controller.simulation.flows.wave import Pace

RATE_BPS = 1_000_000
# Annealing takes a thousand tries each time; what is tested here does not depend on how paths are chosen.
STRATEGY_NAMES = sorted({name for name, strategy in STRATEGIES.items() if not strategy.wider} - {"hedera-annealing"})
# The algorithms that take any number of ranks.
COLLECTIVES = sorted(pair for pair in SUPPORTED if pair[1] in (Algorithm.RING, Algorithm.DIRECT, Algorithm.TREE))
BARE = Settings(header_bytes=0, failover_s=0.05, replan_s=0.2)


@st.composite
def fabrics(draw: st.DrawFn) -> FlowFabric:
    sides = (draw(st.integers(2, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2)))
    return FlowFabric(planned_view(plan(*sides, rate_bps=RATE_BPS)))


@st.composite
def transfers(draw: st.DrawFn, of: FlowFabric, name: str) -> Transfers:
    size = draw(st.integers(1, 30)) * 1_000
    numbers = range(len(of.hosts))
    if draw(st.booleans()):
        ends = draw(st.lists(st.tuples(st.sampled_from(numbers), st.sampled_from(numbers)), min_size=1, max_size=5))
        return pattern_transfers(sorted(set(ends)), size, name)
    operation, algorithm = draw(st.sampled_from(COLLECTIVES))
    ranks = tuple(draw(st.permutations(of.hosts)))
    pace = draw(st.sampled_from([None, *Pace]))
    return collective_transfers(of, [Collective(name, Operation(operation), algorithm, ranks, size)], name, pace)


@st.composite
def jobs(draw: st.DrawFn, of: FlowFabric) -> list[Job]:
    made = []
    for name in ("a", "b")[: draw(st.integers(1, 2))]:
        phases = [
            Phase(draw(st.sampled_from([0.0, 0.1])), draw(transfers(of, name))) for _ in range(draw(st.integers(1, 2)))
        ]
        start_s = draw(st.sampled_from([0.0, 0.15]))
        made.append(Job(name, tuple(phases), tuple(range(len(of.hosts))), draw(st.integers(1, 3)), start_s))
    return made


@st.composite
def troubles(draw: st.DrawFn, of: FlowFabric) -> Impairments:
    """Links that fail or slow down for a while, and a controller that is away for a while."""
    cables = of.cables()
    time_s = st.integers(0, 20).map(lambda n: n / 10)
    links = []
    for _ in range(draw(st.integers(0, 3))):
        start_s = draw(time_s)
        _, numbers = draw(st.sampled_from(cables))
        end_s = start_s + 0.1 + draw(time_s)
        links.append(LinkTrouble(numbers, start_s, end_s, draw(st.sampled_from([0.0, 0.0, 0.5]))))
    away_s = draw(time_s)
    return Impairments(tuple(links), outages=(Outage(away_s, away_s + 0.5),) if draw(st.booleans()) else ())


@settings(max_examples=40, deadline=None)
@given(st.data(), fabrics(), st.sampled_from(STRATEGY_NAMES), st.integers(0, 9))
def test_every_byte_leaves_once_and_no_link_is_over_its_rate(
    data: st.DataObject, of: FlowFabric, name: str, seed: int
) -> None:
    work, trouble = data.draw(jobs(of)), data.draw(troubles(of))
    result = simulate(of, work, STRATEGIES[name], seed, trouble, BARE)
    # All trouble ends, so everything gets there.
    assert not result.stranded
    assert all(
        job.end_s is not None and len(job.iteration_s) == w.iterations for job, w in zip(result.jobs, work, strict=True)
    )
    sent: dict[int, float] = defaultdict(float)
    for job in work:
        for (source, target), by_phase in job.units().items():
            for link in (of.host_links(source)[0], of.host_links(target)[1]):
                sent[link] += 8.0 * sum(by_phase.values()) * job.iterations
    hosts = result.link_bits[of.ports :]
    assert hosts == pytest.approx([sent[of.ports + n] for n in range(len(hosts))], abs=1e-3)
    assert (result.bins_bps <= of.capacity_bps()[: of.own_links] * (1 + 1e-6)).all()
    assert result.bins_bps.sum(axis=0) * result.bin_s == pytest.approx(result.link_bits, abs=1e-3)
    # No sooner than the busiest host's own link allows.
    assert result.duration_s >= max(np.array(list(sent.values())) / RATE_BPS, default=0.0) * (1 - 1e-9)
    again = simulate(of, work, STRATEGIES[name], seed, trouble, BARE)
    assert [job.end_s for job in again.jobs] == [job.end_s for job in result.jobs]
