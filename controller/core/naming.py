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


def find_host(state: State, text: str) -> Host | None:
    """By name, address, alias, or another spelling of one of them; None also when several hosts fit."""
    return attached_hosts(state).find(text)[0]


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
        near = attached.names.near(text) if len(wrong) < _SUGGESTED else ()
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        wrong.append((f"{field}[{i}]: " if field else "") + why + meant)
    return hosts, wrong


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
