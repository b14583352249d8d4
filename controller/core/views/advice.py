"""Placement advice on the fabric as it is; changes nothing."""

from collections.abc import Sequence
from dataclasses import replace

from controller.core.machine import Core
from controller.core.naming import attached_hosts, default_nic, find_ranks, spelled_out
from controller.core.views.common import UnknownHost
from controller.fabric.edge_paths import planned_paths
from controller.fabric.model import Host
from controller.fabric.paths import link_capacities
from controller.jobs.announcement import problems
from controller.jobs.collective import Collective
from controller.placement.advice import Advice, Site, advise


class BadQuestion(Exception):
    """str() says what is wrong, one problem a line."""


def advise_placement(core: Core, collective: Collective, candidates: Sequence[str]) -> Advice:
    """Hosts may be named by name or address. Raises UnknownHost and BadQuestion."""
    asked = {"ranks": collective.ranks, "candidate_hosts": tuple(candidates)}
    spelled = {field: spelled_out(texts, field) for field, texts in asked.items()}
    unreadable = [sentence for _, sentences in spelled.values() for sentence in sentences]
    wrong = unreadable or problems(replace(collective, ranks=spelled["ranks"][0], ports=()))
    if wrong:
        raise BadQuestion("\n".join(wrong))
    view = core.state.view
    together = max(collective.ranks_per_host, 1)
    found = {field: find_ranks(core.state, texts, together, field) for field, (texts, _) in spelled.items()}
    unknown = [sentence for _, sentences in found.values() for sentence in sentences]
    if unknown:
        raise UnknownHost("\n".join(unknown))
    labels = {field: tuple(host.label for host in hosts) for field, (hosts, _) in found.items()}
    # Where a host without a plan has several addresses on one interface, its name is the first of them.
    hosts = {host.label: host for host in reversed(view.hosts)}
    site = Site(
        leaf_of={label: host.leaf for label, host in hosts.items()},
        host_bps={label: max(host.capacity_bps, 1) for label, host in hosts.items()},
        paths=planned_paths(view),
        capacity_bps=link_capacities(view),
        server_of={label: host.name for label, host in hosts.items() if host.nic},
    )
    try:
        advice = advise(replace(collective, ranks=labels["ranks"], ports=()), site, labels["candidate_hosts"])
    except ValueError as error:
        raise BadQuestion(str(error)) from error
    ranks = tuple(_shortest(core, hosts[label], rank, together) for rank, label in enumerate(advice.ranks))
    return replace(advice, ranks=ranks)


def _shortest(core: Core, host: Host, rank: int, together: int) -> str:
    """The host's name alone where it would mean this interface at this rank."""
    nics = attached_hosts(core.state).nics_of.get(host.name, ())
    return host.name if not nics or default_nic(rank, together, nics[-1].nic) == host.nic else host.label
