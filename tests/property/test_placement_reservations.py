"""Reservations equal the live flows' sums and never go below nothing, whatever happens in whatever order."""

import random
from collections import Counter

import pytest

from controller.fabric.model import PortRef
from controller.fabric.paths import link_capacities, two_tier_paths
from controller.placement.reservations import DoesNotFit, Reservations
from tests.unit.fabrics import leaf, plan, view

A, B = PortRef(1, 1), PortRef(2, 1)


@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_steps(seed: int) -> None:
    rng = random.Random(seed)
    fabric = view(plan(leaves=4, spines=3, hosts=1))
    capacity, paths = link_capacities(fabric), two_tier_paths(fabric)
    held = Reservations(capacity)
    live: dict[str, tuple[tuple[PortRef, ...], int]] = {}
    down: set[PortRef] = set()
    refused = 0
    for _ in range(10_000):
        flow = f"f{rng.randrange(60)}"
        what = rng.choices(("announce", "withdraw", "fail", "restore"), (6, 3, 1, 1))[0]
        if what == "announce":
            a, b = rng.sample(range(1, 5), 2)
            path = rng.choice(paths[leaf(a), leaf(b)])
            rate = rng.randrange(0, 4_000_000)
            overcommit = rng.random() < 0.05
            fits = all(rate <= capacity[p] - sum(r for f, (q, r) in live.items() if p in q and f != flow) for p in path)
            if down.intersection(path):
                with pytest.raises(KeyError):
                    held.reserve(flow, path, rate, overcommit)
            elif fits or overcommit:
                held.reserve(flow, path, rate, overcommit)
                live[flow] = (path, rate)
            else:
                refused += 1
                # What was promised to the flow before may be less than nothing on a link that is over-committed.
                try:
                    held.reserve(flow, path, rate)
                except DoesNotFit:
                    pass
                else:
                    live[flow] = (path, rate)
        elif what == "withdraw":
            held.release(flow)
            live.pop(flow, None)
        elif what == "fail":
            port = rng.choice(sorted(capacity))
            lost = held.fail([port])
            assert lost == tuple(sorted(f for f, (path, _) in live.items() if port in path))
            live = {f: entry for f, entry in live.items() if port not in entry[0]}
            down.add(port)
        else:
            back = {port: capacity[port] for port in down if rng.random() < 0.7}
            held.restore(back)
            down -= back.keys()
        check(held, live, {p: c for p, c in capacity.items() if p not in down})
    assert refused > 100


def check(held: Reservations, live: dict[str, tuple[tuple[PortRef, ...], int]], capacity: dict[PortRef, int]) -> None:
    assert held.flows() == live
    total: Counter[PortRef] = Counter()
    for path, rate in live.values():
        for port in path:
            total[port] += rate
    for port, whole in capacity.items():
        assert held.reserved_bps(port) == total[port]
        assert held.free_bps(port) == max(whole - total[port], 0)
        assert held.free_bps(port) - held.overcommitted_bps(port) == whole - total[port]


def test_what_does_not_fit_is_refused_with_the_figures() -> None:
    """A link of 1,000 carries 900; growing the flow to 1,100 would leave less than nothing (open-kilda issue 1068)."""
    held = Reservations({A: 1000, B: 5000})
    held.reserve("f", (A, B), 900)
    with pytest.raises(DoesNotFit, match=r"f: 1100 bit/s do not fit: 1:1 has 1000 bit/s left"):
        held.reserve("f", (A, B), 1100)
    assert (held.free_bps(A), held.free_bps(B)) == (100, 4100)
    held.reserve("f", (A, B), 1100, overcommit=True)
    assert (held.free_bps(A), held.overcommitted_bps(A), held.free_bps(B)) == (0, 100, 3900)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"negative capacity_bps of 1:1"):
        Reservations({A: -1})
    held = Reservations({A: 10})
    with pytest.raises(ValueError, match="f: -5 bit/s; a reservation is 0 or more"):
        held.reserve("f", (A,), -5)
    with pytest.raises(KeyError, match="no link 2:1"):
        held.reserve("f", (A, B), 5)
    assert held.flows() == {}
    assert held.free_bps(B) == 0
