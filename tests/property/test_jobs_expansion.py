"""Expansion of any collective: bytes follow the published formulas, steerable units are distinct, checks agree."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from controller.jobs.announcement import problems
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.jobs.edges import SUPPORTED, channel_edges, edge_count, edges
from controller.jobs.flows import expand, notes


def whole_power(ranks: int) -> int:
    return 1 << (ranks.bit_length() - 1)


def folded(ranks: int) -> int:
    """Halving and doubling among the largest power of two, the surplus ranks fold in and out (Thakur et al. 2005)."""
    core = whole_power(ranks)
    return 2 * (core - 1) + 2 * (ranks - core)


# Bytes over all edges of one channel, in units of the buffer, for N ranks of which L share a server (nccl-tests,
# doc/PERFORMANCE.md: the factor of bus bandwidth times the number of edges; Sanders et al. 2009 for the trees). Edges
# inside a server are counted, except where the algorithm knows servers and leaves them to their bus.
TOTAL: dict[tuple[Operation, Algorithm], Callable[[int, int], int]] = {
    (Operation.ALL_REDUCE, Algorithm.RING): lambda n, _: 2 * (n - 1),
    (Operation.ALL_REDUCE, Algorithm.TREE): lambda n, together: 2 * (n // together - 1),
    (Operation.ALL_REDUCE, Algorithm.HALVING_DOUBLING): lambda n, _: folded(n),
    (Operation.ALL_REDUCE, Algorithm.HIERARCHICAL): lambda n, together: 2 * (n // together - 1),
    (Operation.ALL_GATHER, Algorithm.RING): lambda n, _: n - 1,
    (Operation.ALL_GATHER, Algorithm.HALVING_DOUBLING): lambda n, _: n - 1,
    (Operation.ALL_GATHER, Algorithm.HIERARCHICAL): lambda n, together: n // together - 1,
    (Operation.REDUCE_SCATTER, Algorithm.RING): lambda n, _: n - 1,
    (Operation.REDUCE_SCATTER, Algorithm.HALVING_DOUBLING): lambda n, _: n - 1,
    (Operation.REDUCE_SCATTER, Algorithm.HIERARCHICAL): lambda n, together: n // together - 1,
    (Operation.BROADCAST, Algorithm.RING): lambda n, _: n - 1,
    (Operation.BROADCAST, Algorithm.TREE): lambda n, together: n // together - 1,
    (Operation.REDUCE, Algorithm.RING): lambda n, _: n - 1,
    (Operation.REDUCE, Algorithm.TREE): lambda n, together: n // together - 1,
    (Operation.SEND_RECV, Algorithm.RING): lambda n, _: n,
    (Operation.SEND_RECV, Algorithm.DIRECT): lambda n, _: n - 1,
    (Operation.ALL_TO_ALL, Algorithm.DIRECT): lambda n, _: n - 1,
    (Operation.ALL_TO_ALL, Algorithm.HIERARCHICAL): lambda n, together: (n // together - 1) * together,
}


@st.composite
def collectives(
    draw: st.DrawFn, known_ports: bool = True, op: Operation | None = None, by: Algorithm | None = None
) -> Collective:
    possible = sorted(pair for pair in SUPPORTED if op in (None, pair[0]) and by in (None, pair[1]))
    operation, algorithm = draw(st.sampled_from(possible))
    together = draw(st.sampled_from([1, 1, 2, 3]))
    ranks = together * draw(st.integers(2, 7))
    if algorithm == Algorithm.HALVING_DOUBLING and operation != Operation.ALL_REDUCE:
        together, ranks = 1, whole_power(ranks)
    plain = Collective(
        job_id=draw(st.from_regex(r"\A[A-Za-z0-9._/-]{1,128}\Z")),
        operation=operation,
        algorithm=algorithm,
        ranks=tuple(f"h{i}" for i in range(ranks)),
        size_bytes=draw(st.integers(1, 2**63) | st.integers(1, 100)),
        rings=tuple(draw(st.lists(st.permutations(range(ranks)).map(tuple), max_size=4))),
        queue_pairs=draw(st.integers(0, 9)),
        ranks_per_host=together,
        priority=draw(st.integers(0, 7)),
    )
    if not known_ports:
        return plain
    pairs = sorted({(edge.src_rank, edge.dst_rank) for edge in edges(plain)})
    known = draw(st.lists(st.sampled_from(pairs), unique=True))
    numbers = st.lists(st.integers(1, 65_535), min_size=1, max_size=6).map(tuple)
    ports = tuple(QueuePairPorts(a, b, draw(numbers)) for a, b in known)
    return Collective(**{name: getattr(plain, name) for name in plain.__slots__} | {"ports": ports})


def resolve(rank: str) -> tuple[str, str]:
    return rank, f"10.0.0.{rank[1:]}"


def inside(collective: Collective, a: int, b: int) -> bool:
    return a // collective.ranks_per_host == b // collective.ranks_per_host


def test_every_supported_pair_has_a_formula() -> None:
    assert TOTAL.keys() == SUPPORTED


@given(collectives())
def test_what_makes_sense_has_no_problems(collective: Collective) -> None:
    assert problems(collective) == ()


@given(collectives())
def test_bytes_are_those_of_the_formulas_and_at_most_rounded_up(collective: Collective) -> None:
    ranks, channels = len(collective.ranks), max(len(collective.rings), 1)
    formula = TOTAL[collective.operation, collective.algorithm](ranks, collective.ranks_per_host)
    made = list(edges(collective))
    total = sum(edge.size_bytes for edge in made)
    assert formula * collective.size_bytes <= total < formula * collective.size_bytes + 4 * ranks * ranks * channels
    assert len(made) <= edge_count(collective)
    if collective.size_bytes % (2 * ranks * collective.ranks_per_host * channels) == 0:
        assert total == formula * collective.size_bytes


@given(collectives())
def test_steps_are_equal_parts_and_every_rank_joins_in(collective: Collective) -> None:
    made = list(edges(collective))
    for edge in made:
        assert edge.first_step >= 0
        assert edge.steps >= 1
        assert edge.step_bytes * edge.steps == edge.size_bytes
        assert edge.src_rank != edge.dst_rank
    assert min(edge.first_step for edge in made) == 0
    heads_only = collective.algorithm == Algorithm.TREE and collective.ranks_per_host > 1
    joined = {edge.src_rank for edge in made} | {edge.dst_rank for edge in made}
    servers = {rank // collective.ranks_per_host for rank in joined}
    assert len(servers) == len(collective.ranks) // collective.ranks_per_host
    assert heads_only or joined == set(range(len(collective.ranks)))


@given(collectives(known_ports=False, by=Algorithm.TREE))
def test_no_rank_of_a_two_tree_sends_or_receives_more_than_twice_the_buffer(collective: Collective) -> None:
    """What two trees are for (Sanders et al. 2009): full bandwidth at every rank."""
    sent: Counter[int] = Counter()
    received: Counter[int] = Counter()
    for edge in edges(collective):
        sent[edge.src_rank] += edge.size_bytes
        received[edge.dst_rank] += edge.size_bytes
    most = 2 * collective.size_bytes + 4 * max(len(collective.rings), 1)
    limit = most if collective.operation == Operation.ALL_REDUCE else most - collective.size_bytes
    assert max(*sent.values(), *received.values()) <= limit


@given(collectives(known_ports=False, op=Operation.BROADCAST))
def test_a_rank_forwards_only_what_it_has_received(collective: Collective) -> None:
    """In a broadcast everybody but the root receives before sending; the tree halves may arrive in different steps."""
    for channel in channel_edges(collective):
        first_received: dict[int, int] = {}
        made = list(channel)
        for edge in made:
            earlier = first_received.get(edge.dst_rank, edge.first_step)
            first_received[edge.dst_rank] = min(earlier, edge.first_step)
        root_server = {e.src_rank for e in made} - first_received.keys()
        assert len(root_server) == 1
        assert inside(collective, root_server.pop(), 0)
        assert all(first_received.get(e.src_rank, -1) < e.first_step for e in made)


@given(collectives(by=Algorithm.RING))
def test_edges_of_a_ring_carry_the_same_unless_channels_differ(collective: Collective) -> None:
    shares = {edge.size_bytes for edge in edges(collective)}
    assert len(shares) == 1 or len(collective.rings) > 1
    assert len(shares) <= 2


@given(collectives())
def test_flows_are_distinct_units_that_together_carry_everything(collective: Collective) -> None:
    flows = expand(collective, resolve)
    units = [(f.src_address, f.dst_address, f.udp_source_port) for f in flows]
    assert len(set(units)) == len(units)
    assert len({f.flow_id for f in flows}) == len(flows)
    assert all(f.src_host != f.dst_host and f.size_bytes >= 0 and f.queue_pairs >= 1 for f in flows)
    total = sum(e.size_bytes for e in edges(collective) if not inside(collective, e.src_rank, e.dst_rank))
    assert total <= sum(f.size_bytes for f in flows) <= total + len(flows)
    assert expand(collective, resolve) == flows


@given(collectives(), st.integers(1, 3))
def test_ranks_that_share_a_host_are_one_end(collective: Collective, hosts: int) -> None:
    """Several ranks on one host, by name: nothing goes from a host to itself, and no byte is lost on the way."""

    def crowded(rank: str) -> tuple[str, str]:
        number = int(rank[1:]) % (hosts + 1)
        return f"server{number}", f"10.0.0.{number}"

    flows = expand(collective, crowded)
    units = [(f.src_address, f.dst_address, f.udp_source_port) for f in flows]
    assert len(set(units)) == len(units)
    assert all(f.src_address != f.dst_address for f in flows)
    apart = [
        e
        for e in edges(collective)
        if not inside(collective, e.src_rank, e.dst_rank) and (e.src_rank - e.dst_rank) % (hosts + 1)
    ]
    total = sum(e.size_bytes for e in apart)
    pairs = len({(e.src_rank, e.dst_rank) for e in apart})
    assert total <= sum(f.size_bytes for f in flows) <= total + 6 * pairs


@given(collectives())
def test_parts_of_a_connection_follow_their_queue_pairs(collective: Collective) -> None:
    connections: dict[tuple[str, str], list] = {}
    for flow in expand(collective, resolve):
        connections.setdefault((flow.src_host, flow.dst_host), []).append(flow)
    sent: dict[tuple[str, str], int] = {}
    for edge in edges(collective):
        if inside(collective, edge.src_rank, edge.dst_rank):
            continue
        pair = (f"h{edge.src_rank}", f"h{edge.dst_rank}")
        sent[pair] = sent.get(pair, 0) + edge.size_bytes
    assert sent.keys() == connections.keys()
    for pair, flows in connections.items():
        queue_pairs = sum(f.queue_pairs for f in flows)
        for flow in flows:
            exact = Fraction(sent[pair] * flow.queue_pairs, queue_pairs)
            assert exact <= flow.size_bytes < exact + 1


@given(collectives())
def test_notes_speak_up_exactly_when_queue_pairs_share_a_5_tuple(collective: Collective) -> None:
    flows = expand(collective, resolve)
    said = any("5-tuple" in note for note in notes(collective, flows))
    assert said == any(flow.queue_pairs > 1 for flow in flows)
