"""Which attached hosts a caller means: names, addresses, aliases and host-list expressions, looked up in the fabric.

It decides among the hosts of the present view, by `fabric.names`; what an unknown host means for a request is decided
where the request is.
"""

from collections.abc import Iterable, Sequence

from controller.core.state import State
from controller.fabric.attached import AttachedHosts
from controller.fabric.host_lists import HostListError, expand
from controller.fabric.model import Host
from controller.jobs.announcement import MAX_RANKS

# Looking for names that are like an unknown one takes time; whoever misspelt many sees the pattern in these.
_SUGGESTED = 5


def attached_hosts(state: State) -> AttachedHosts:
    """Of the present view; made anew only when that has changed."""
    known = state.attached
    if known is None or known.view is not state.view:
        known = state.attached = AttachedHosts.of(state.view)
    return known


def find_hosts(state: State, texts: Iterable[str], field: str = "") -> tuple[list[Host], list[str]]:
    """(the hosts, a sentence for each text that means none, with names like it). With a `field` name, each sentence
    begins with "field[i]: "."""
    attached = attached_hosts(state)
    hosts: list[Host] = []
    wrong: list[str] = []
    for i, text in enumerate(texts):
        host, why = attached.find(text)
        if host is not None:
            hosts.append(host)
            continue
        is_unknown = attached.find_interface(text) is None
        near = attached.names.near(text) if is_unknown and len(wrong) < _SUGGESTED else ()
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        wrong.append((f"{field}[{i}]: " if field else "") + why + meant)
    return hosts, wrong


def find_ranks(
    state: State, texts: Sequence[str], ranks_per_host: int, field: str = ""
) -> tuple[list[Host], list[str]]:
    """As `find_hosts`, of consecutive ranks: a server's i-th rank has its i-th interface, as libraries give each GPU
    the nearest one; with fewer interfaces than ranks they share them evenly. Who names an interface or an address means
    that one."""
    hosts, wrong = find_hosts(state, texts, field)
    if wrong or not any(host.nic for host in hosts):
        return hosts, wrong
    attached, together = attached_hosts(state), max(ranks_per_host, 1)
    result: list[Host] = []
    for i, (text, host) in enumerate(zip(texts, hosts, strict=True)):
        nics = attached.nics_of.get(host.name, ())
        if not nics or attached.means_interface(text):
            result.append(host)
            continue
        number = default_nic(i, together, nics[-1].nic)
        found, why = attached.interface(host.name, number)
        if found is None:
            wrong.append((f"{field}[{i}]: " if field else "") + why)
        else:
            result.append(found)
    return result, wrong


def default_nic(rank: int, ranks_per_host: int, nics: int) -> int:
    """The interface, counted from 1, of a rank on a server that has so many."""
    return rank % ranks_per_host * nics // ranks_per_host + 1


def spelled_out(texts: Sequence[str], field: str) -> tuple[tuple[str, ...], list[str]]:
    """(the texts with every host-list expression in its place written out, a sentence for each that is none)."""
    if not any("[" in text or "," in text for text in texts):
        return tuple(texts), []
    result: list[str] = []
    wrong: list[str] = []
    for i, text in enumerate(texts):
        if "[" not in text and "," not in text:
            result.append(text)
            continue
        try:
            result += expand(text, MAX_RANKS)
        except HostListError as error:
            wrong.append(f"{field}[{i}]: {error}")
    return tuple(result), wrong
