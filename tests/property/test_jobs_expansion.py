"""Expansion of any collective: bytes follow the published formulas, steerable units are distinct, checks agree."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from controller.jobs.announcement import problems
from controller.jobs.collective import Algorithm, Collective, Operation, QueuePairPorts
from controller.jobs.edges import SUPPORTED, edge_count, edges
from controller.jobs.flows import expand, notes

# Bytes over all edges of one channel, in units of the buffer, for N ranks (nccl-tests, doc/PERFORMANCE.md: the factor
# of bus bandwidth times the number of edges).
TOTAL = {
    (Operation.ALL_REDUCE, Algorithm.RING): lambda n: 2 * (n - 1),
    (Operation.ALL_GATHER, Algorithm.RING): lambda n: n - 1,
    (Operation.REDUCE_SCATTER, Algorithm.RING): lambda n: n - 1,
    (Operation.BROADCAST, Algorithm.RING): lambda n: n - 1,
    (Operation.SEND_RECV, Algorithm.RING): lambda n: n,
    (Operation.SEND_RECV, Algorithm.DIRECT): lambda n: n - 1,
    (Operation.ALL_TO_ALL, Algorithm.DIRECT): lambda n: n - 1,
}


@st.composite
def collectives(draw: st.DrawFn) -> Collective:
    operation, algorithm = draw(st.sampled_from(sorted(SUPPORTED)))
    ranks = draw(st.integers(2, 7))
    plain = Collective(
        job_id=draw(st.from_regex(r"\A[A-Za-z0-9._/-]{1,128}\Z")),
        operation=operation,
        algorithm=algorithm,
        ranks=tuple(f"h{i}" for i in range(ranks)),
        size_bytes=draw(st.integers(1, 2**63) | st.integers(1, 100)),
        rings=tuple(draw(st.lists(st.permutations(range(ranks)).map(tuple), max_size=4))),
        queue_pairs=draw(st.integers(0, 9)),
    )
    pairs = sorted({(edge.src_rank, edge.dst_rank) for edge in edges(plain)})
    known = draw(st.lists(st.sampled_from(pairs), unique=True))
    numbers = st.lists(st.integers(1, 65_535), min_size=1, max_size=6).map(tuple)
    ports = tuple(QueuePairPorts(a, b, draw(numbers)) for a, b in known)
    return Collective(**{name: getattr(plain, name) for name in plain.__slots__} | {"ports": ports})


def resolve(rank: str) -> tuple[str, str]:
    return rank, f"10.0.0.{rank[1:]}"


@given(collectives())
def test_what_makes_sense_has_no_problems(collective: Collective) -> None:
    assert problems(collective) == ()


@given(collectives())
def test_bytes_are_those_of_the_formulas_and_at_most_rounded_up(collective: Collective) -> None:
    ranks, channels = len(collective.ranks), max(len(collective.rings), 1)
    formula = TOTAL[collective.operation, collective.algorithm](ranks) * collective.size_bytes
    made = list(edges(collective))
    total = sum(edge.size_bytes for edge in made)
    assert formula <= total < formula + 2 * ranks * ranks * channels
    assert len(made) <= edge_count(collective)
    if collective.size_bytes % (ranks * channels) == 0:
        assert total == formula


@given(collectives())
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
    total = sum(edge.size_bytes for edge in edges(collective))
    assert total <= sum(f.size_bytes for f in flows) <= total + len(flows)
    assert expand(collective, resolve) == flows


@given(collectives())
def test_parts_of_a_connection_follow_their_queue_pairs(collective: Collective) -> None:
    connections: dict[tuple[str, str], list] = {}
    for flow in expand(collective, resolve):
        connections.setdefault((flow.src_host, flow.dst_host), []).append(flow)
    sent: dict[tuple[str, str], int] = {}
    for edge in edges(collective):
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
