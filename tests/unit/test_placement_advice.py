"""Advice: orders and choices of hosts one can count by hand, and that advice never makes anything worse."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.fabric.paths import link_capacities, two_tier_paths
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.placement.advice import Site, advise, predict
from tests.unit.fabrics import leaf, plan, view

MIB = 1 << 20


def site(leaves: int = 4, spines: int = 2, hosts: int = 4) -> Site:
    fabric = view(plan(leaves=leaves, spines=spines, hosts=hosts))
    return Site(
        {host.name: host.port.dpid for host in fabric.hosts},
        {host.name: host.capacity_bps for host in fabric.hosts},
        two_tier_paths(fabric),
        link_capacities(fabric),
    )


def ring(ranks: tuple[str, ...], operation: Operation = Operation.ALL_REDUCE, **more: object) -> Collective:
    algorithm = Algorithm.DIRECT if operation == Operation.ALL_TO_ALL else Algorithm.RING
    return Collective("job", operation, algorithm, ranks, 16 * MIB, **more)  # type: ignore[arg-type]


INTERLEAVED = ("h11", "h21", "h12", "h22", "h13", "h23", "h14", "h24")


def test_a_ring_crosses_once_per_leaf_when_neighbours_share_leaves() -> None:
    found = advise(ring(INTERLEAVED), site())
    assert (found.given.crossing_flows, found.advised.crossing_flows) == (8, 2)
    assert [host[1] for host in found.ranks] in ([*"11112222"], [*"22221111"])
    # Four flows out of each leaf over two uplinks, then one: half the time, because a host link then bounds it.
    assert found.gain == pytest.approx(0.5)
    assert found.sentences[0].startswith("one run takes 50.0% less time")
    assert found.sentences[1].endswith("cross the spines instead of 234,881,024 in 8")


def test_an_order_that_is_good_already_is_left_alone() -> None:
    found = advise(ring(tuple(sorted(INTERLEAVED))), site())
    assert found.ranks == tuple(sorted(INTERLEAVED))
    assert found.gain == 0.0
    assert found.sentences == ("nothing to gain: no order or choice tried is better than the one given",)


def test_an_all_to_all_gains_nothing_by_order_and_says_so() -> None:
    found = advise(ring(INTERLEAVED, Operation.ALL_TO_ALL), site())
    assert found.ranks == INTERLEAVED
    assert "the order of the ranks makes no difference" in found.sentences[1]


def test_hosts_are_chosen_on_as_few_leaves_as_can_be() -> None:
    free = ("h11", "h21", "h22", "h23", "h31", "h32", "h33", "h34", "h41")
    spread = ring(("h11", "h21", "h31", "h41"))
    found = advise(spread, site(), free)
    assert {host[1] for host in found.ranks} == {"3"}
    assert (found.given.leaves, found.advised.leaves) == (4, 1)
    assert found.advised.crossing_bytes == 0
    # Five ranks need two leaves: the full one, and of the others the one that the rest just fits.
    five = advise(ring(("h11", "h21", "h31", "h41", "h22")), site(), free)
    assert Counter(host[1] for host in five.ranks)["3"] == 4
    assert five.advised.leaves == 2


def test_servers_of_several_ranks_move_as_one() -> None:
    ranks = ("h11", "h12", "h21", "h22", "h13", "h14", "h23", "h24")
    found = advise(ring(ranks, ranks_per_host=2), site())
    pairs = {found.ranks[i : i + 2] for i in range(0, 8, 2)}
    assert pairs == {ranks[i : i + 2] for i in range(0, 8, 2)}
    assert found.advised.crossing_flows == 2


def test_ranks_that_share_a_host_are_put_side_by_side() -> None:
    ranks = ("h11", "h21", "h11", "h21")
    found = advise(ring(ranks), site())
    assert Counter(found.ranks) == Counter(ranks)
    assert found.advised.crossing_flows == 2
    assert found.advised.crossing_bytes < found.given.crossing_bytes


def test_the_first_ring_is_the_order_that_counts() -> None:
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    found = advise(ring(tuple(sorted(INTERLEAVED)), rings=(order,)), site())
    along = [found.ranks[rank][1] for rank in order]
    assert along in ([*"11112222"], [*"22221111"])


def test_what_cannot_be_advised_is_said() -> None:
    with pytest.raises(ValueError, match="candidates: 2 servers for 8; list as many as the job has, at least"):
        advise(ring(INTERLEAVED), site(), ("h11", "h12"))
    with pytest.raises(ValueError, match="hosts of which no leaf is known: ghost"):
        advise(ring(INTERLEAVED), site(), ("ghost", *INTERLEAVED))
    with pytest.raises(ValueError, match="list whole servers of 2 ranks"):
        advise(ring(INTERLEAVED, ranks_per_host=2), site(), (*INTERLEAVED, "h31"))


def test_a_leaf_without_spines_is_the_last_resort() -> None:
    whole = site()
    paths = {pair: () if leaf(1) in pair else found for pair, found in whole.paths.items()}
    cut_off = Site(whole.leaf_of, whole.host_bps, paths, whole.capacity_bps)
    found = advise(ring(("h11", "h21")), cut_off, ("h11", "h21", "h31"))
    assert (found.given.stranded, found.advised.stranded) == (2, 0)
    assert set(found.ranks) == {"h21", "h31"}


@given(st.integers(2, 16), st.integers(0, 10_000), st.sampled_from(Operation), st.booleans())
def test_advice_is_never_worse_and_uses_the_same_hosts(count: int, seed: int, operation: Operation, pool: bool) -> None:
    here = site()
    rng = random.Random(seed)
    hosts = sorted(here.leaf_of)
    ranks = tuple(rng.sample(hosts, count))
    candidates = tuple(rng.sample(hosts, len(hosts))) if pool else ()
    asked = ring(ranks, operation)
    found = advise(asked, here, candidates)
    assert found.given == predict(asked, here)
    assert found.advised.completion_s <= found.given.completion_s * (1 + 1e-8)
    assert found.gain >= -1e-8
    assert len(set(found.ranks)) == count
    assert set(found.ranks) <= set(candidates or ranks)
