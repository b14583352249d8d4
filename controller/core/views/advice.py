"""Placement advice on the fabric as it is; changes nothing."""

from collections.abc import Sequence
from dataclasses import replace

from controller.core.machine import Core
from controller.core.naming import find_hosts, spelled_out
from controller.core.views.common import UnknownHost
from controller.fabric.paths import link_capacities
from controller.fabric.three_tiers import fabric_paths
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
    found = {field: find_hosts(core.state, texts, field) for field, (texts, _) in spelled.items()}
    unknown = [sentence for _, sentences in found.values() for sentence in sentences]
    if unknown:
        raise UnknownHost("\n".join(unknown))
    names = {field: tuple(host.name for host in hosts) for field, (hosts, _) in found.items()}
    site = Site(
        leaf_of={host.name: host.leaf for host in view.hosts},
        host_bps={host.name: max(host.capacity_bps, 1) for host in view.hosts},
        paths=fabric_paths(view),
        capacity_bps=link_capacities(view),
    )
    try:
        return advise(replace(collective, ranks=names["ranks"], ports=()), site, names["candidate_hosts"])
    except ValueError as error:
        raise BadQuestion(str(error)) from error
