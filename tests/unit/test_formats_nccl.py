"""NCCL logs: each line form, what the lines add up to, and the real logs of the shared inputs where they are."""

import os
from pathlib import Path

import pytest

from controller.formats.nccl import NcclLog, NcclLogError, NetworkConnection, load, load_text, sample_path
from controller.formats.nccl_job import NcclJob, RankMappingError, hosts_by_rank, job_from_log
from controller.formats.nccl_lines import (
    ConnectionLine,
    Hca,
    HcasLine,
    RankLine,
    RingLine,
    SettingLine,
    Side,
    Speaker,
    TreeNode,
    TreesLine,
    Unusable,
    VersionLine,
    read_line,
)

INPUTS = Path(os.environ.get("HEDDLE_INPUTS") or Path(__file__).parents[2].parent / "shared" / "inputs") / "nccl"

HEAD = "node-a:100:101 [3] NCCL INFO "
SPEAKER = Speaker("node-a", "100", "101", 3)


def shared(name: str) -> NcclLog:
    if not (INPUTS / name).is_file():
        pytest.skip(f"the shared input {name} is not at {INPUTS} (set HEDDLE_INPUTS)")
    return load(INPUTS / name)


# --- lines -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "speaker"),
    [
        ("node-a:100:101 [3] ", SPEAKER),
        ("[0]<stdout>:node-a:100:101 [3] ", SPEAKER),
        ("[1,17]<stdout>:node-a:100:101 [3] ", SPEAKER),
        ("[0] node-a:100:101 [3] ", SPEAKER),
        ("12: node-a:100:101 [3] ", SPEAKER),
        ("[2026-03-01 12:00:00] node-a:100:101 [3] ", SPEAKER),
        ("(Worker pid=7, ip=192.0.2.7) node-a:100:101 [3] ", SPEAKER),
        (" [3] ", Speaker(None, None, None, 3)),
    ],
)
def test_whatever_a_launcher_puts_in_front_is_passed_over(prefix: str, speaker: Speaker) -> None:
    assert read_line(prefix + "NCCL INFO Channel 00/02 :    0   1") == (speaker, RingLine(0, (0, 1)))


@pytest.mark.parametrize(
    ("message", "statement"),
    [
        ("Channel 01/08 :    0   3   2   1", RingLine(1, (0, 3, 2, 1))),
        (
            "Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3",
            ConnectionLine(3, 5, 12, ("5", "4"), Side.SEND, "NET/IB", 3, False),
        ),
        (
            "Channel 03/1 : 5[3b000] -> 12[86000] [receive] via NET/IBext_v8/7(9)/GDRDMA(PCI)/Shared",
            ConnectionLine(3, 5, 12, ("3b000", "86000"), Side.RECEIVE, "NET/IBext_v8", 7, True),
        ),
        (
            "Channel 03/0 : 5[5] -> 12[4] [receive] via NET/IB/0/GDRDMA/flush=None",
            ConnectionLine(3, 5, 12, ("5", "4"), Side.RECEIVE, "NET/IB", 0, False),
        ),
        (
            "Channel 04 : 3[3e000] -> 2[3d000] via P2P/direct pointer",
            ConnectionLine(4, 3, 2, ("3e000", "3d000"), Side.SEND, "P2P", None, False),
        ),
        (
            "Channel 00 : 1[17000] -> 0[16000] via P2P/IPC comm 0x7f0010 nRanks 02",
            ConnectionLine(0, 1, 0, ("17000", "16000"), Side.SEND, "P2P", None, False),
        ),
        (
            "Channel 00/0 : 1[1] -> 0[0] via P2P/indirect/5[b5000]",
            ConnectionLine(0, 1, 0, ("1", "0"), Side.SEND, "P2P", None, False),
        ),
        (
            "Ring 00 : 0[1b000] -> 7[41000] via direct shared memory",
            ConnectionLine(0, 0, 7, ("1b000", "41000"), Side.SEND, "direct shared memory", None, False),
        ),
        (
            "Ring 02 : 34 -> 33 [send] via NET/Socket/1",
            ConnectionLine(2, 34, 33, (None, None), Side.SEND, "NET/Socket", 1, False),
        ),
        (
            "comm 0x2a rank 1 nranks 2 cudaDev 0 busId 3b000 commId 0xfe - Init COMPLETE",
            RankLine(1, 2, "0x2a", "0xfe", 0, "3b000", False, True),
        ),
        (
            "ncclCommInitRank comm 0x2a rank 1 nranks 2 cudaDev 0 nvmlDev 4 busId 3b000 commId 0xfe - Init START",
            RankLine(1, 2, "0x2a", "0xfe", 0, "3b000", True, False),
        ),
        (
            "ncclCommSplit comm 0x2b rank 1 nranks 2 cudaDev 5 nvmlDev 5 busId d8000 parent 0x2a splitCount 1 "
            "color 77 key 1- Init START",
            RankLine(1, 2, "0x2b", "color 77", 5, "d8000", True, False),
        ),
        (
            "comm 0x2a rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0",
            RankLine(0, 2, "0x2a", None, None, None, False, False),
        ),
        ("rank 6 nranks 8", RankLine(6, 8, None, None, None, None, False, False)),
        ("Trees [0] 1/-1/-1->0->-1 [1] -1/-1/-1->0->5", TreesLine((TreeNode(0, 0, None, (1,)), TreeNode(1, 0, 5, ())))),
        ("Trees [0] 1/4/-1->0->7|7->0->1/4/-1", TreesLine((TreeNode(0, 0, 7, (1, 4)),))),
        ("Trees [0] 26->25->24/-1/-1", TreesLine((TreeNode(0, 25, 26, (24,)),))),
        (
            "NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_2:1/RoCE [RO]; OOB ib0:192.0.2.10<0>",
            HcasLine((Hca(0, "mlx5_0", 1, "IB"), Hca(1, "mlx5_2", 1, "RoCE"))),
        ),
        ("NET/IB: [2] mlx5_1:1/IB", HcasLine((Hca(2, "mlx5_1", 1, "IB"),))),
        ("NCCL_IB_GID_INDEX set by environment to 3.", SettingLine("NCCL_IB_GID_INDEX", "3")),
        ("NCCL version 2.5.7+cuda10.0", VersionLine("2.5.7+cuda10.0")),
    ],
)
def test_each_form_of_line_is_read(message: str, statement: object) -> None:
    assert read_line(HEAD + message) == (SPEAKER, statement)


def test_the_version_banner_needs_no_marker() -> None:
    read = read_line("[0]<stdout>:NCCL version 2.16.2+cuda11.0")
    assert not isinstance(read, Unusable)
    assert read[1] == VersionLine("2.16.2+cuda11.0")


@pytest.mark.parametrize(
    "line",
    [
        HEAD + HEAD + "Using internal Network IB",
        HEAD + "Channel 03/0 : 5[5] -> 1",
        HEAD + "Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3node-b:100:101 [4]",
        HEAD + "Channel 00 : 3[3] -> 2[2] via P2P/IPCnode-b:100:101 [4]",
        HEAD + "Channel 00/02 :    0   1node-b:1:2 [0]",
        HEAD + "comm 0x2a rank 1 nranks 2comm 0x2b rank 0 nranks 2",
        HEAD + "rank 8 nranks 8",
        HEAD + "Trees [0] 1/-1/-1->0->-1 [1",
        "comm 0x7f6df005a260 rank 2 nranks 8",
        "Channel 00/02 :    0   1",
        "torn before the speaker NCCL INFO Channel 00/02 :    0   1",
    ],
)
def test_torn_and_run_together_lines_are_broken_not_half_believed(line: str) -> None:
    assert read_line(line) is Unusable.BROKEN


def test_other_lines_are_told_apart_from_broken_ones() -> None:
    assert read_line(HEAD + "Connected all rings") is Unusable.OTHER
    assert read_line("Train Epoch: 1 [0/30000 (0%)] Loss: 2.312604") is Unusable.FOREIGN
    assert read_line("") is Unusable.FOREIGN


# --- logs ------------------------------------------------------------------------------------------------


def test_the_sample_is_a_16_rank_job_with_two_whole_rings() -> None:
    log = load(sample_path())
    [communicator] = log.communicators
    in_order = tuple(range(16))
    assert communicator.n_ranks == 16
    assert dict(communicator.rings) == {0: in_order, 1: in_order}
    assert [communicator.ranks[rank].host for rank in in_order] == [f"gpu-{rank + 1:02d}" for rank in in_order]
    assert {node.rank for node in communicator.trees if node.parent is None} == {0, 15}
    assert log.hcas["gpu-07"] == (Hca(0, "mlx5_0", 1, "RoCE"),)
    assert (log.version, log.skipped_lines) == ("2.21.5+cuda12.4", 0)
    job = job_from_log(log)
    assert job.remarks == ()
    assert (len(job.machines), job.rings, job.queue_pairs) == (16, (in_order, in_order), 1)


def test_in_the_sample_both_ends_of_every_network_connection_are_known() -> None:
    network = load(sample_path()).communicators[0].network
    assert all(connection.src_hca == connection.dst_hca == 0 for connection in network)
    ring = {(rank, (rank + 1) % 16) for rank in range(16)}
    assert ring <= {(connection.src_rank, connection.dst_rank) for connection in network if connection.channel == 1}


def ring_log(n_ranks: int, edges: list[str], listed: int = 0) -> str:
    """A log of ring 0: `edges` as given, and rank 0's list of the first `listed` ranks."""
    head = "node-a:1:1 [0] NCCL INFO "
    lines = [f"{head}comm 0x1 rank 0 nranks {n_ranks}"]
    if listed:
        lines.append(f"{head}Channel 00/01 :" + "".join(f" {rank:3d}" for rank in range(listed)))
    return "\n".join([*lines, *(head + edge for edge in edges)])


def sends(n_ranks: int, first: int = 0) -> list[str]:
    return [f"Ring 00 : {rank} -> {(rank + 1) % n_ranks} [send] via NET/IB/0" for rank in range(first, n_ranks)]


def test_a_ring_is_put_together_from_its_connections() -> None:
    order = [0, 2, 1, 3]
    edges = [
        "Channel 00/0 : 0[0] -> 2[2] via P2P/IPC",
        "Channel 00/0 : 2[2] -> 1[1] [receive] via NET/IB/0",
        "Channel 00/0 : 1[1] -> 3[3] [send] via NET/IB/0",
        "Channel 00/0 : 3[3] -> 0[0] [receive] via NET/IB/0",
    ]
    assert load_text(ring_log(4, edges)).communicators[0].rings == {0: tuple(order)}


def test_connections_of_trees_and_of_send_and_receive_are_no_part_of_a_ring() -> None:
    tree = ["Ring 00 : 0 -> 2 [send] via NET/IB/0", "Ring 00 : 1 -> 3 [send] via NET/IB/0"]
    point_to_point = ["Channel 00/1 : 0[0] -> 3[3] [send] via NET/IB/0"]
    communicator = load_text(ring_log(4, point_to_point + sends(4) + tree)).communicators[0]
    assert communicator.rings == {0: (0, 1, 2, 3)}
    assert [c for c in communicator.network if c.point_to_point] == [
        NetworkConnection(0, 0, 3, "NET/IB", 0, None, True)
    ]


def test_a_list_cut_after_20_ranks_is_completed_from_connections() -> None:
    """NCCL prints no more than 20 ranks of a ring, and nothing says that it stopped."""
    assert load_text(ring_log(32, [], listed=20)).communicators[0].incomplete_rings == (0,)
    whole = load_text(ring_log(32, sends(32, first=19), listed=20)).communicators[0]
    assert whole.rings == {0: tuple(range(32))}


def test_a_list_of_20_ranks_alone_does_not_say_how_many_ranks_there_are() -> None:
    head = "node-a:1:1 [0] NCCL INFO Channel 00/01 :"
    listed = [load_text(head + "".join(f" {rank:3d}" for rank in range(n))).communicators[0].n_ranks for n in (19, 20)]
    assert listed == [19, None]


@pytest.mark.parametrize(
    "edges",
    [
        sends(4)[:2],
        [*sends(4)[:3], "Ring 00 : 3 -> 1 [send] via NET/IB/0"],
        ["Ring 00 : 0 -> 1 [send] via NET/IB/0", "Ring 00 : 1 -> 0 [send] via NET/IB/0"],
        ["Ring 00 : 0 -> 7 [send] via NET/IB/0"],
    ],
    ids=["a gap", "back to the wrong rank", "too small", "a rank that does not exist"],
)
def test_a_ring_that_does_not_visit_every_rank_once_is_not_reported(edges: list[str]) -> None:
    communicator = load_text(ring_log(4, edges)).communicators[0]
    assert (communicator.rings, communicator.incomplete_rings) == ({}, (0,))


def test_communicators_of_one_log_are_kept_apart() -> None:
    """As in a PyTorch job: the same ranks in one large and then in smaller groups, on the same threads."""
    lines = []
    for rank in range(4):
        head = f"node-{rank}:1:1 [0] NCCL INFO "
        for identity, members in (("0xaa", [0, 1, 2, 3]), ("0xbb", [0, 2])):
            if rank not in members:
                continue
            place, size = members.index(rank), len(members)
            call = (
                f"{head}ncclCommInitRank comm 0x{identity[2:]}{rank} rank {place} nranks {size} cudaDev 0 busId 17000"
            )
            lines.append(f"{call} commId {identity} - Init START")
            if place == 0:
                lines.append(f"{head}Channel 00/01 : " + " ".join(map(str, reversed(range(size)))))
            lines.append(f"{head}Channel 00/0 : {place}[0] -> {(place - 1) % size}[0] [send] via NET/IB/0")
            lines.append(f"{call} commId {identity} - Init COMPLETE")
    log = load_text("\n".join(lines))
    assert [(c.identity, c.n_ranks, c.rings) for c in log.communicators] == [
        ("0xaa", 4, {0: (3, 2, 1, 0)}),
        ("0xbb", 2, {0: (1, 0)}),
    ]
    assert [rank.host for rank in log.communicators[1].ranks.values()] == ["node-0", "node-2"]
    job = job_from_log(log, communicator=1)
    assert job.rings == ((1, 0),)
    assert "1 other communicator is in the log; this one has 2 ranks" in job.remarks


def test_lines_before_an_old_versions_closing_line_belong_to_its_communicator() -> None:
    head = "node-a:1:1 [0] NCCL INFO "
    details = "cudaDev 0 busId 17000"
    log = load_text(
        f"{head}Channel 00/01 : 0 1 2\n"
        f"{head}comm 0x1 rank 0 nranks 3 {details} commId 0xa - Init COMPLETE\n"
        f"{head}Channel 00/01 : 1 0\n"
        f"{head}comm 0x2 rank 0 nranks 2 {details} commId 0xb - Init COMPLETE\n"
        f"{head}comm 0x2 rank 0 nranks 2 {details} - Destroy COMPLETE\n"
    )
    assert [(c.identity, c.rings) for c in log.communicators] == [("0xa", {0: (0, 1, 2)}), ("0xb", {0: (1, 0)})]


def test_broken_lines_are_counted_and_the_first_is_named() -> None:
    log = load_text(f"foreign\n{HEAD}Channel 00/01 : 0 1\n{HEAD}{HEAD}x\ncomm 0x1 rank 0 nranks 2\n")
    assert (log.skipped_lines, log.first_skipped) == (2, 3)
    assert log.communicators[0].rings == {0: (0, 1)}


@pytest.mark.parametrize("text", ["", "\n", "Epoch 1\nEpoch 2\n", "\x00\xff\x00", "NCCL"])
def test_a_file_that_is_no_nccl_log_is_refused_with_the_cure(text: str) -> None:
    with pytest.raises(NcclLogError, match="NCCL_DEBUG=INFO"):
        load_text(text)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NcclLogError, match="cannot be read"):
        load(tmp_path / "none.log")


# --- jobs ------------------------------------------------------------------------------------------------


def test_queue_pairs_are_those_set_in_the_log() -> None:
    setting = "NCCL_IB_QPS_PER_CONNECTION set by environment to"
    base = ring_log(2, sends(2))
    assert job_from_log(load_text(base)).queue_pairs == 1
    assert job_from_log(load_text(f"{base}\n{HEAD}{setting} 4.")).queue_pairs == 4
    for wrong in ("0", "-1", "many", "129", ""):
        with pytest.raises(NcclLogError, match="a number from 1 to 128"):
            job_from_log(load_text(f"{base}\n{HEAD}{setting} {wrong}."))


def test_a_log_without_the_number_of_ranks_makes_no_job() -> None:
    with pytest.raises(NcclLogError, match="how many ranks"):
        job_from_log(load_text(HEAD + "Channel 03/0 : 5[5] -> 12[4] [send] via NET/IB/3"))
    with pytest.raises(NcclLogError, match="more than the limit"):
        job_from_log(load_text(HEAD + "comm 0x1 rank 0 nranks 999999999"))


def test_what_the_log_leaves_open_is_remarked_on() -> None:
    job = job_from_log(load_text(ring_log(4, sends(4)[:2]) + f"\n{HEAD}{HEAD}"))
    assert job.remarks == (
        "the ring of channel 0 is not complete in the log: collect the logs of all ranks",
        "the log does not say on which host ranks 2, 3 are",
        "1 torn line was skipped; the first is line 4",
    )


def a_job(*machines: str | None) -> NcclJob:
    return NcclJob(machines, (), 1, ())


def test_machines_that_the_fabric_has_are_taken_by_name() -> None:
    job = a_job("gpu-02", "gpu-02", "gpu-01")
    assert hosts_by_rank(job, ["gpu-01", "gpu-02", "gpu-03"]) == ("gpu-02", "gpu-02", "gpu-01")


def test_unknown_machines_get_the_fabrics_hosts_in_the_given_order() -> None:
    """Ranks on one machine share a host: what they tell each other never leaves it."""
    assert hosts_by_rank(a_job("x", "y", "x"), ["h2", "h1", "h3"]) == ("h2", "h1", "h2")


def test_without_machines_each_rank_gets_a_host_of_its_own() -> None:
    assert hosts_by_rank(a_job(None, None), ["h1", "h2"]) == ("h1", "h2")
    assert hosts_by_rank(a_job("x", None, "x"), ["h1", "h2", "h3"]) == ("h1", "h2", "h3")


@pytest.mark.parametrize(
    ("job", "hosts", "message"),
    [
        (a_job("h1", "h9"), ["h1", "h2"], "the fabric has no host named h9"),
        (a_job("h1", None), ["h1", "h2"], "on which host ranks 1 are"),
        (a_job("x", "y", "z"), ["h1"], "3 machines and 1 hosts are given: none is left for machines y, z"),
        (a_job(None, None), ["h1"], "2 ranks and 1 hosts are given: none is left for ranks 1"),
        (a_job("x", "y"), ["h1", "h1"], "given more than once: h1"),
    ],
)
def test_what_does_not_fit_is_named(job: NcclJob, hosts: list[str], message: str) -> None:
    with pytest.raises(RankMappingError, match=message):
        hosts_by_rank(job, hosts)


# --- real logs -------------------------------------------------------------------------------------------


def test_real_send_recv_between_two_nodes() -> None:
    """NVIDIA/nccl#1412: rank 5 sends to rank 12 by HCA 3 on channels 3 and 7; rank 13 sends to rank 4."""
    [communicator] = shared("nccl-1412-2node-send-recv.log").communicators
    assert communicator.network == (
        NetworkConnection(3, 5, 12, "NET/IB", 3, None, False),
        NetworkConnection(3, 13, 4, "NET/IB", None, 3, False),
        NetworkConnection(7, 5, 12, "NET/IB", 3, None, False),
        NetworkConnection(7, 13, 4, "NET/IB", None, 3, False),
    )
    assert [communicator.ranks[rank].host for rank in (4, 5, 6, 7)] == ["gpu-node-01"] * 4
    assert communicator.ranks[12].host is None
    assert communicator.ranks[12].gpu == 4


def test_real_horovod_job_of_two_nodes() -> None:
    log = shared("horovod-2node-ib-2.16.2.log")
    [communicator] = log.communicators
    assert {rank: place.host for rank, place in communicator.ranks.items()} == {0: "gpu-node-01", 1: "gpu-node-02"}
    assert communicator.rings == {0: (0, 1), 1: (0, 1)}
    directions = sorted((c.channel, c.src_rank, c.dst_rank) for c in communicator.network)
    assert directions == [(0, 0, 1), (0, 1, 0), (1, 0, 1), (1, 1, 0)]
    assert {place.bus_id for place in communicator.ranks.values()} == {"3b000"}
    assert log.skipped_lines == 0
    assert job_from_log(log).remarks == ()


def test_real_16_rank_roce_rings() -> None:
    log = shared("nccl-392-roce-16rank-2.5.7.log")
    assert job_from_log(log).rings == (tuple(range(16)), tuple(range(16)))
    assert log.hcas == {"": (Hca(0, "mlx5_0", 1, "RoCE"),)}
    assert log.communicators[0].trees[0] == TreeNode(0, 0, 7, (1,))


def test_real_interleaved_lines_cost_only_themselves() -> None:
    """NVIDIA/nccl#147: two ranks' lines run together; the rest of the log is kept."""
    log = shared("nccl-147-interleaved-lines-2.3.log")
    assert (log.skipped_lines, log.first_skipped) == (2, 6)
    assert log.communicators[0].n_ranks == 8
    assert sorted(log.communicators[0].ranks) == [1, 6]
    assert [hca.name for hca in log.hcas["gpu-node-01"]] == ["mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"]


def test_real_logs_of_other_versions_and_launchers() -> None:
    assert len(shared("nccl-224-mpirun-prefix-34hca.log").hcas["gpu-node-01"]) == 34
    mixed = shared("nccl-1737-mixed-ib-roce-2.21.log")
    assert [hca.link_layer for hca in mixed.hcas["gpu-node-01"]] == ["IB"] * 4 + ["RoCE"]
    plugin = shared("nccl-1453-h100-plugin-ibext.log").communicators[0].network
    assert {(c.transport, c.src_rank, c.dst_rank) for c in plugin} == {("NET/IBext_v8", 0, 8), ("NET/IBext_v8", 8, 0)}
    sockets = shared("nccl-226-64rank-socket-ring.log").communicators[0]
    assert sockets.n_ranks == 64
    assert (0, 32) in {(c.src_rank, c.dst_rank) for c in sockets.network}


def test_no_real_log_has_lines_that_are_taken_for_broken_without_being_so() -> None:
    names = sorted(path.name for path in INPUTS.glob("*.log")) if INPUTS.is_dir() else []
    if not names:
        pytest.skip(f"no shared inputs at {INPUTS} (set HEDDLE_INPUTS)")
    skipped = {name: shared(name).skipped_lines for name in names}
    assert [name for name, count in skipped.items() if count] == ["nccl-147-interleaved-lines-2.3.log"]
