"""Kubernetes node labels and the Kueue Topology that names them, from a cabling.

It decides the labels: topograph's `fabric.topograph.run/tier-N`, tier 0 being next to the node, so that either tool's
labels serve the other's readers; and, on a rail-optimised pod, `heddle/rail-N` for the leaf of each rail of the node.
Kueue wants the widest level first. Apply with `kubectl apply --server-side`, which
leaves a node's other fields alone. Sources: kueue.sigs.k8s.io, topology-aware scheduling; topograph's label reference.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from controller.fabric.cabling import CablingPlan
from controller.fabric.cabling_levels import Group, groups
from controller.formats.writing import ExportError, check_names, left_out, word

_PREFIX = "fabric.topograph.run/tier-"
_RAIL_PREFIX = "heddle/rail-"
_HOST_LABEL = "kubernetes.io/hostname"
# A label's value, and a node's name (RFC 1123).
_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def lines(plan: CablingPlan) -> Iterator[str]:
    """A Topology and one Node for each host. Raises ExportError."""
    check_names(plan, "kueue")
    chains = _chains(groups(plan), plan)
    _check(chains)
    yield "# Kueue topology and node labels, written by heddle export kueue"
    yield from ("apiVersion: kueue.x-k8s.io/v1beta1", "kind: Topology", "metadata:", "  name: heddle", "spec:")
    yield "  levels:"
    depth = max((len(chain) for chain in chains.values()), default=0)
    yield from (f"  - nodeLabel: {_PREFIX}{tier}" for tier in reversed(range(depth)))
    yield f"  - nodeLabel: {_HOST_LABEL}"
    rails = _rails(plan)
    for host, chain in chains.items():
        yield from ("---", "apiVersion: v1", "kind: Node", "metadata:", f"  name: {word(host)}", "  labels:")
        # A pod that asks for a level finds only nodes that bear its label: a short chain is repeated upwards.
        padded = chain + chain[-1:] * (depth - len(chain))
        yield from (f'    {_PREFIX}{tier}: "{name}"' for tier, name in enumerate(padded))
        yield from (f'    {_RAIL_PREFIX}{rail}: "{leaf}"' for rail, leaf in sorted(rails.get(host, {}).items()))
    yield from left_out(plan)


def _rails(plan: CablingPlan) -> dict[str, dict[int, str]]:
    """Host -> rail -> the leaf where the host is on it."""
    carried = {switch.name: switch.rails for switch in plan.switches if switch.rails}
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for host, leaf, cable in plan.to_hosts():
        if cable.usable:
            found[host].update(dict.fromkeys(carried.get(leaf, ()), leaf))
    return found


def _chains(found: tuple[Group, ...], plan: CablingPlan) -> dict[str, list[str]]:
    """The groups above each host, the nearest first; hosts that hang on nothing are not in it."""
    by_name = {group.name: group for group in found}
    of_host: dict[str, str] = {}
    for group in found:
        for host in group.hosts:
            of_host.setdefault(host, group.name)
    chains = {}
    for host in plan.hosts:
        chain, name = [], of_host.get(host, "")
        while name:
            chain.append(name)
            name = by_name[name].parent
        if chain:
            chains[host] = chain
    return chains


def _check(chains: dict[str, list[str]]) -> None:
    problems = [
        f"host name {host!r} is no name of a Kubernetes node: use lower-case letters, digits, dots and dashes"
        for host in chains
        if _NODE.fullmatch(host) is None
    ]
    values = dict.fromkeys(name for chain in chains.values() for name in chain)
    problems += [
        f"{name!r} cannot be the value of a label: shorten the switches' names to 63 characters in all"
        for name in values
        if _VALUE.fullmatch(name) is None
    ]
    if problems:
        raise ExportError(problems)
