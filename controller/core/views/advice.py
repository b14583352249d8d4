"""Placement advice on the fabric as it is; changes nothing."""

from collections.abc import Sequence
from dataclasses import replace

from controller.core.machine import Core
from controller.core.planning import hosts_by_address
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
    wrong = problems(replace(collective, ports=()))
    if wrong:
        raise BadQuestion("\n".join(wrong))
    view = core.state.view
    known = {host.name: host for host in view.hosts} | hosts_by_address(core.state)
    asked = {"ranks": collective.ranks, "candidate_hosts": tuple(candidates)}
    unknown = [
        f"{field}[{i}]: no host {text!r} on this fabric"
        for field, texts in asked.items()
        for i, text in enumerate(texts)
        if text not in known
    ]
    if unknown:
        raise UnknownHost("\n".join(unknown))
    names = {field: tuple(known[text].name for text in texts) for field, texts in asked.items()}
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
