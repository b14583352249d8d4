"""The impairments of a simulation file on a fabric, or what the fabric does not have of them.

Decides which links a place stands for, and what is noticed where the file does not say: that a link failed or is slow,
but not that it loses packets.
"""

import random
from collections.abc import Sequence

from controller.cli.simulate_faults import Faults
from controller.cli.simulate_file import ImpairmentEntry
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.impairments import NEVER, HostTrouble, Impairments, LinkTrouble, Outage


def impairments_on(fabric: FlowFabric, entries: Sequence[ImpairmentEntry], seed: int, faults: Faults) -> Impairments:
    """On this fabric's link numbers; what cannot be found is noted in `faults`."""
    cables = dict(fabric.cables()) if entries else {}
    troubles = [
        _impairment(i, entry, fabric, cables, random.Random(f"{seed}/impairment/{i}"), faults)
        for i, entry in enumerate(entries)
    ]
    return Impairments(
        links=tuple(t for t in troubles if isinstance(t, LinkTrouble)),
        hosts=tuple(t for t in troubles if isinstance(t, HostTrouble)),
        outages=tuple(t for t in troubles if isinstance(t, Outage)),
    )


Cables = dict[str, tuple[int, int]]


def _impairment(
    i: int, entry: ImpairmentEntry, fabric: FlowFabric, cables: Cables, rng: random.Random, faults: Faults
) -> LinkTrouble | HostTrouble | Outage | None:
    end_s = NEVER if entry.until_s is None else entry.until_s
    if entry.controller is not None:
        return Outage(entry.at_s, end_s)
    if entry.host is not None and entry.compute is not None and entry.host in fabric.host_number:
        return HostTrouble(fabric.host_number[entry.host], entry.compute, entry.at_s, end_s)
    links = _links(i, entry, fabric, cables, rng, faults)
    if links is None:
        return None
    rate = 0.0 if entry.failed else 1.0 if entry.rate is None else entry.rate
    # What fails is noticed; what only loses packets is not, unless the file says so.
    seen = entry.seen if entry.seen is not None else entry.loss is None
    return LinkTrouble(links, entry.at_s, end_s, rate, entry.loss or 0.0, seen)


def _links(
    i: int, entry: ImpairmentEntry, fabric: FlowFabric, cables: Cables, rng: random.Random, faults: Faults
) -> tuple[int, ...] | None:
    if entry.links is not None:
        chosen = rng.sample(sorted(cables), round(entry.links * len(cables)))
        return tuple(link for name in chosen for link in cables[name])
    if entry.link is not None:
        if entry.link in cables:
            return cables[entry.link]
        what, known = f"no link {entry.link} on this fabric", list(cables)
    elif entry.switch is not None:
        dpids = {s.name: dpid for dpid, s in fabric.view.switches.items()}
        if entry.switch in dpids:
            return tuple(fabric.links_of(dpids[entry.switch]))
        what, known = f"no switch {entry.switch} on this fabric", list(dpids)
    else:
        if entry.host in fabric.host_number:
            return fabric.host_links(fabric.host_number[entry.host])
        what, known = f"no host {entry.host} on this fabric", list(fabric.hosts)
    key = next(key for key in ("link", "switch", "host") if getattr(entry, key) is not None)
    faults.add(("impairments", i, key), what, f"names are such as {known[0]} and {known[-1]}")
    return None
