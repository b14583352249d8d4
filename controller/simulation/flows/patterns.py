"""The classic traffic patterns: who sends to whom.

Sources: stride, staggered probability and random as in Al-Fares et al., "Hedera" (NSDI 2010), section 6.1; incast as in
Phanishayee et al. (FAST 2008). Decides ends only; hosts are numbers in the order of the fabric, leaf by leaf.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence

Ends = list[tuple[int, int]]


def stride(hosts: Sequence[int], step: int) -> Ends:
    """Host i sends to the host `step` places on, round the end."""
    count = len(hosts)
    return [(hosts[i], hosts[(i + step) % count]) for i in range(count)]


def permutation(hosts: Sequence[int], rng: random.Random) -> Ends:
    """Everybody sends to one other host and receives from one: a random derangement where there are two or more."""
    order = list(hosts)
    rng.shuffle(order)
    # One cycle through all in random order leaves nobody to itself.
    partner = dict(zip(order, order[1:] + order[:1], strict=True))
    return [(host, partner[host]) for host in hosts if partner[host] != host]


def staggered(
    hosts: Sequence[int],
    group_of: Callable[[int], int],
    pod_of: Callable[[int], int],
    same_leaf: float,
    same_pod: float,
    rng: random.Random,
) -> Ends:
    """Each host sends to a random one: on its leaf with probability `same_leaf`, in the rest of its pod with
    `same_pod`, elsewhere otherwise; where there is no such host, to any other."""
    leaves: dict[int, list[int]] = defaultdict(list)
    pods: dict[int, list[int]] = defaultdict(list)
    for host in hosts:
        leaves[group_of(host)].append(host)
        pods[pod_of(host)].append(host)
    found = []
    for host in hosts:
        leaf, pod = set(leaves[group_of(host)]), set(pods[pod_of(host)])
        draw = rng.random()
        if draw < same_leaf:
            wanted = leaf
        elif draw < same_leaf + same_pod:
            wanted = pod - leaf
        else:
            wanted = set(hosts) - pod
        choices = sorted(wanted - {host}) or sorted(set(hosts) - {host})
        if choices:
            found.append((host, rng.choice(choices)))
    return found


def incast(hosts: Sequence[int], target: int, senders: int, rng: random.Random) -> Ends:
    """So many random hosts send to `target`."""
    others = [host for host in hosts if host != target]
    return [(host, target) for host in sorted(rng.sample(others, min(senders, len(others))))]


def all_to_all(hosts: Sequence[int]) -> Ends:
    """Everybody to everybody else."""
    return [(a, b) for a in hosts for b in hosts if a != b]
