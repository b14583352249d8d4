"""From a collective to the flows a switch can tell apart, and what to say about those it cannot.

OpenFlow 1.3 matches addresses and UDP ports but not InfiniBand queue pairs: queue pairs with the same 5-tuple are one
flow, counted once, from whichever ranks of a host they come. What stays inside a server is no flow. Flows of hosts
that share a leaf are flows too; which of them need a path is decided elsewhere.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from controller.jobs.collective import Collective, Flow
from controller.jobs.edges import channel_edges

# A rank's text (host name or address) -> (host name, address).
Resolve = Callable[[str], tuple[str, str]]

# Sentences of one kind in `notes` before the rest is only counted.
_SENTENCES = 8


def expand(collective: Collective, resolve: Resolve) -> tuple[Flow, ...]:
    """The flows of a collective that `announcement` finds no fault with, ordered by ranks and port.

    Where UDP source ports are known, each distinct port is a flow with the share of its queue pairs, rounded up to
    whole bytes. Flows of several ranks with one 5-tuple are one flow, named after the first of them.
    """
    ends = [resolve(rank) for rank in collective.ranks]
    found: dict[tuple[str, str, int], Flow] = {}
    for (src, dst), connection in _connections(collective):
        if ends[src][0] == ends[dst][0]:
            continue
        for port, queue_pairs, size_bytes in _parts(connection):
            unit = (ends[src][1], ends[dst][1], port)
            if unit in found:
                first = found[unit]
                found[unit] = replace(
                    first, size_bytes=first.size_bytes + size_bytes, queue_pairs=first.queue_pairs + queue_pairs
                )
                continue
            found[unit] = Flow(
                flow_id=f"{collective.job_id}/{src}-{dst}" + (f":{port}" if port else ""),
                job_id=collective.job_id,
                src_host=ends[src][0],
                dst_host=ends[dst][0],
                src_address=ends[src][1],
                dst_address=ends[dst][1],
                size_bytes=size_bytes,
                queue_pairs=queue_pairs,
                udp_source_port=port,
            )
    return tuple(found.values())


def notes(collective: Collective, flows: Iterable[Flow]) -> tuple[str, ...]:
    """Sentences for people: which queue pairs cannot be steered apart, and what would make them so."""
    shared = [flow for flow in flows if flow.queue_pairs > 1]
    sentences = [
        f"{flow.queue_pairs} queue pairs of {flow.src_host} -> {flow.dst_host} share one 5-tuple"
        + (f" (UDP source port {flow.udp_source_port})" if flow.udp_source_port else "")
        + ": 1 steerable flow; give them distinct UDP source ports to steer them apart"
        for flow in shared[:_SENTENCES]
    ]
    rest = shared[_SENTENCES:]
    if rest:
        queue_pairs = sum(flow.queue_pairs for flow in rest)
        sentences.append(f"the same holds for {len(rest)} more steerable flows with {queue_pairs} queue pairs in all")
    return (*sentences, *_more_ports_than_queue_pairs(collective))


def _more_ports_than_queue_pairs(collective: Collective) -> Iterator[str]:
    found = [
        f"{len(connection.ports)} UDP source ports are listed for ranks {src} -> {dst} with {announced} queue pairs "
        f"announced: counted as {len(connection.ports)} queue pairs"
        for (src, dst), connection in (_connections(collective) if collective.ports else ())
        if len(connection.ports) > (announced := connection.queue_pairs) and collective.queue_pairs > 1
    ]
    yield from found[:_SENTENCES]
    if len(found) > _SENTENCES:
        yield f"so it is for {len(found) - _SENTENCES} more pairs of ranks"


@dataclass(slots=True)
class _Connection:
    """Everything from one rank to another, all channels together; `ports` is empty when not known."""

    ports: Sequence[int]
    size_bytes: int = 0
    queue_pairs: int = 0


def _connections(collective: Collective) -> list[tuple[tuple[int, int], _Connection]]:
    """(source rank, destination rank) -> connection, sorted; without those inside a server."""
    ports = {(entry.src_rank, entry.dst_rank): entry.udp_source_ports for entry in collective.ports}
    found: dict[tuple[int, int], _Connection] = {}
    together = max(collective.ranks_per_host, 1)
    for channel in channel_edges(collective):
        connected = set()
        for edge in channel:
            pair = (edge.src_rank, edge.dst_rank)
            if together > 1 and edge.src_rank // together == edge.dst_rank // together:
                continue
            connection = found.setdefault(pair, _Connection(ports.get(pair, ())))
            connection.size_bytes += edge.size_bytes
            if pair not in connected:
                connected.add(pair)
                connection.queue_pairs += max(collective.queue_pairs, 1)
    return sorted(found.items())


def _parts(connection: _Connection) -> list[tuple[int, int, int]]:
    """(UDP source port or 0, queue pairs, bytes) of each flow of a connection.

    Queue pairs take the listed ports in turn, so that with fewer ports than queue pairs some share one; more ports than
    announced queue pairs mean that there are as many queue pairs as ports.
    """
    ports = connection.ports
    if not ports:
        return [(0, connection.queue_pairs, connection.size_bytes)]
    queue_pairs = max(connection.queue_pairs, len(ports))
    users = Counter(ports[i % len(ports)] for i in range(queue_pairs))
    return [(port, n, -(-connection.size_bytes * n // queue_pairs)) for port, n in sorted(users.items())]
