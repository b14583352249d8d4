"""Expansion: bytes per flow against the published formulas, steerable units, and what is said about the rest."""

from dataclasses import replace

import pytest

from controller.jobs.collective import Algorithm, Collective, Flow, Operation, QueuePairPorts
from controller.jobs.edges import edge_count, edges
from controller.jobs.flows import expand, notes

MIB = 1 << 20


def resolve(rank: str) -> tuple[str, str]:
    return f"host-{rank}", f"10.0.0.{rank}"


def collective(
    operation: Operation, ranks: int = 4, size_bytes: int = MIB, algorithm: Algorithm = Algorithm.RING, **more: object
) -> Collective:
    names = tuple(str(i) for i in range(ranks))
    return replace(Collective("job", operation, algorithm, names, size_bytes), **more)


def sizes(flows: tuple[Flow, ...]) -> dict[str, int]:
    return {flow.flow_id: flow.size_bytes for flow in flows}


@pytest.mark.parametrize(
    ("operation", "per_edge"),
    [
        (Operation.ALL_REDUCE, 2 * 3 * MIB // 4),
        (Operation.ALL_GATHER, 3 * MIB // 4),
        (Operation.REDUCE_SCATTER, 3 * MIB // 4),
        (Operation.SEND_RECV, MIB),
    ],
)
def test_rings_send_what_the_bus_bandwidth_factors_say(operation: Operation, per_edge: int) -> None:
    flows = expand(collective(operation), resolve)
    assert sizes(flows) == dict.fromkeys(["job/0-1", "job/1-2", "job/2-3", "job/3-0"], per_edge)


def test_a_flow_says_who_and_where() -> None:
    assert expand(collective(Operation.SEND_RECV, ranks=2), resolve)[1] == Flow(
        flow_id="job/1-0",
        job_id="job",
        src_host="host-1",
        dst_host="host-0",
        src_address="10.0.0.1",
        dst_address="10.0.0.0",
        size_bytes=MIB,
        queue_pairs=1,
    )


def test_a_broadcast_starts_at_rank_0_and_stops_before_it() -> None:
    flows = expand(collective(Operation.BROADCAST), resolve)
    assert sizes(flows) == dict.fromkeys(["job/0-1", "job/1-2", "job/2-3"], MIB)
    turned = expand(collective(Operation.BROADCAST, rings=((2, 0, 3, 1),)), resolve)
    assert sizes(turned) == dict.fromkeys(["job/0-3", "job/1-2", "job/3-1"], MIB)


def test_pipeline_stages_do_not_close_the_ring() -> None:
    flows = expand(collective(Operation.SEND_RECV, algorithm=Algorithm.DIRECT), resolve)
    assert sizes(flows) == dict.fromkeys(["job/0-1", "job/1-2", "job/2-3"], MIB)


def test_all_to_all_sends_a_share_to_everybody() -> None:
    flows = expand(collective(Operation.ALL_TO_ALL, ranks=8, algorithm=Algorithm.DIRECT), resolve)
    assert len(flows) == 56
    assert {flow.size_bytes for flow in flows} == {MIB // 8}


def test_two_ranks_exchange_in_both_directions() -> None:
    assert sizes(expand(collective(Operation.ALL_REDUCE, ranks=2), resolve)) == {"job/0-1": MIB, "job/1-0": MIB}


def test_channels_between_the_same_hosts_are_one_flow() -> None:
    """Each channel has its own queue pairs, but without known ports nothing on the wire tells them apart."""
    flows = expand(collective(Operation.ALL_REDUCE, rings=((0, 1, 2, 3),) * 3, queue_pairs=4), resolve)
    assert len(flows) == 4
    assert {flow.queue_pairs for flow in flows} == {12}
    # The buffer is divided among the channels to the byte; each share is divided into rounded-up chunks.
    shares = [MIB // 3 + 1, MIB // 3, MIB // 3]
    assert {flow.size_bytes for flow in flows} == {sum(2 * 3 * -(-share // 4) for share in shares)}


def test_channels_in_opposite_directions_are_different_flows() -> None:
    flows = expand(collective(Operation.ALL_REDUCE, rings=((0, 1, 2, 3), (3, 2, 1, 0))), resolve)
    assert len(flows) == 8
    assert sum(flow.size_bytes for flow in flows) == 2 * 3 * MIB


def test_real_sizes_pass_32_bits() -> None:
    flows = expand(collective(Operation.ALL_REDUCE, size_bytes=38_654_705_664, ranks=3), resolve)
    assert {flow.size_bytes for flow in flows} == {4 * 38_654_705_664 // 3}


def test_known_ports_are_flows_of_their_own() -> None:
    ports = (QueuePairPorts(0, 1, (50_001, 50_002)),)
    flows = expand(collective(Operation.SEND_RECV, ranks=2, queue_pairs=2, ports=ports), resolve)
    assert [(f.flow_id, f.udp_source_port, f.queue_pairs, f.size_bytes) for f in flows] == [
        ("job/0-1:50001", 50_001, 1, MIB // 2),
        ("job/0-1:50002", 50_002, 1, MIB // 2),
        ("job/1-0", 0, 2, MIB),
    ]
    assert notes(collective(Operation.SEND_RECV), flows) == (
        "2 queue pairs of host-1 -> host-0 share one 5-tuple: 1 steerable flow; "
        "give them distinct UDP source ports to steer them apart",
    )


def test_equal_ports_are_one_flow_counted_once() -> None:
    """What several libraries do: every queue pair with the same source port."""
    ports = (QueuePairPorts(0, 1, (49_152,) * 8),)
    asked = collective(Operation.SEND_RECV, ranks=2, algorithm=Algorithm.DIRECT, queue_pairs=8, ports=ports)
    (flow,) = expand(asked, resolve)
    assert (flow.size_bytes, flow.queue_pairs, flow.udp_source_port) == (MIB, 8, 49_152)
    assert notes(asked, [flow]) == (
        "8 queue pairs of host-0 -> host-1 share one 5-tuple (UDP source port 49152): 1 steerable flow; "
        "give them distinct UDP source ports to steer them apart",
    )


def test_queue_pairs_take_the_listed_ports_in_turn() -> None:
    ports = (QueuePairPorts(0, 1, (7, 8, 9)),)
    asked = collective(Operation.SEND_RECV, ranks=2, algorithm=Algorithm.DIRECT, queue_pairs=4, ports=ports)
    flows = expand(asked, resolve)
    assert {f.udp_source_port: (f.queue_pairs, f.size_bytes) for f in flows} == {
        7: (2, MIB // 2),
        8: (1, MIB // 4),
        9: (1, MIB // 4),
    }


def test_more_ports_than_queue_pairs_mean_as_many_queue_pairs() -> None:
    ports = (QueuePairPorts(0, 1, (7, 8, 9, 10)),)
    asked = collective(Operation.SEND_RECV, ranks=2, algorithm=Algorithm.DIRECT, ports=ports)
    flows = expand(asked, resolve)
    assert {f.size_bytes for f in flows} == {MIB // 4}
    # Who does not say how many queue pairs there are is not told that the number is wrong.
    assert notes(asked, flows) == ()
    assert notes(replace(asked, queue_pairs=2), flows) == (
        "4 UDP source ports are listed for ranks 0 -> 1 with 2 queue pairs announced: counted as 4 queue pairs",
    )


def test_many_notes_are_cut_and_counted() -> None:
    asked = collective(Operation.ALL_REDUCE, ranks=20, queue_pairs=2)
    found = notes(asked, expand(asked, resolve))
    assert len(found) == 9
    assert found[-1] == "the same holds for 12 more steerable flows with 24 queue pairs in all"


def test_a_combination_nobody_supports_is_an_error() -> None:
    with pytest.raises(ValueError, match="operation all-reduce is not supported with algorithm direct"):
        list(edges(collective(Operation.ALL_REDUCE, algorithm=Algorithm.DIRECT)))


def test_connections_can_be_counted_without_making_them() -> None:
    for operation, algorithm in ((Operation.ALL_TO_ALL, Algorithm.DIRECT), (Operation.ALL_REDUCE, Algorithm.RING)):
        asked = collective(operation, algorithm=algorithm, rings=((0, 1, 2, 3),) * 2)
        assert edge_count(asked) == len(list(edges(asked)))
