"""Real fabrics: brought up, used, broken, taken down. Root, Open vSwitch and Mininet are needed."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# ruff: noqa: E402 - what is imported below needs Mininet, which is looked for first
pytest.importorskip("mininet.net", reason="Mininet is not installed")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ovs-vswitchd") is None or shutil.which("mnexec") is None,
    reason="needs root, Open vSwitch and Mininet",
)

REPOSITORY = Path(__file__).parents[2]
sys.path.append(str(REPOSITORY / "mininet"))

import lab_management
from lab_attach import attach
from lab_fabric import FabricLab
from lab_meters import cpu_share, sent_bytes
from lab_namespace import LabError
from lab_ovs import RUN_BASE
from lab_rules import lay_static_rules

from controller.fabric.model import Role
from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch

LAB = f"test-lab-{os.getpid()}"


def leaf_spine(rate_bps: int = 8_000_000) -> FabricPlan:
    """Two leaves, two spines, two hosts a leaf; ports are numbered with gaps, so that exact numbers show."""
    switches = [PlannedSwitch(f"leaf{i}", i, Role.LEAF) for i in (1, 2)]
    switches += [PlannedSwitch(f"spine{i}", 0x100 + i, Role.SPINE) for i in (1, 2)]
    links = [PlannedLink(f"leaf{i}", 10 + j, f"spine{j}", 20 + i, rate_bps) for i in (1, 2) for j in (1, 2)]
    hosts = [
        PlannedHost(f"h{i}{k}", f"leaf{i}", k, f"02:00:00:00:0{i}:0{k}", f"10.0.{i}.{k}", 24, rate_bps)
        for i in (1, 2)
        for k in (1, 2)
    ]
    return FabricPlan(LAB, tuple(switches), tuple(links), tuple(hosts))


def eventually(holds: Callable[[], object], timeout_s: float = 90.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return bool(holds())


def network_state() -> tuple[str, frozenset[str]]:
    """The namespace this thread is in, and its interfaces but for the management networks of other labs."""
    namespace = os.readlink("/proc/thread-self/ns/net")
    links = json.loads(subprocess.check_output(["ip", "-j", "link"]))
    ours = lab_management._choose(LAB, (), ()).root_interface
    names = {link["ifname"] for link in links}
    return namespace, frozenset(name for name in names if name == ours or not name.startswith("hdl"))


def children() -> frozenset[int]:
    # A process of ours in any thread; zombies count as well.
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return frozenset(found)


def test_a_fabric_comes_up_and_goes_down_without_a_trace() -> None:
    before, processes = network_state(), children()
    environment = dict(os.environ)
    with FabricLab(leaf_spine()) as lab:
        pids = {lab.ovs.switch_pid, *(lab.pid_of(h.name) for h in lab.plan.hosts)}
        assert network_state()[0] != before[0]
        lay_static_rules(lab)
        every_pair = [(a.name, b.name) for a in lab.plan.hosts for b in lab.plan.hosts if a is not b]
        assert [pair for pair, time_ms in lab.ping_pairs(every_pair).items() if time_ms is None] == []
        numbers = lab.ovs.vsctl("--bare", "--columns=ofport", "find", "Interface", "name=leaf2-eth12")
        assert numbers.strip() == "12"
        assert lab.ovs.vsctl("get", "Bridge", "spine2", "datapath_id").strip() == '"0000000000000102"'
        assert "output:11" in lab.trace("leaf1", 1, "ip,nw_dst=10.0.2.1")
        record = attach(LAB)
        assert record.address_of("h21") == "10.0.2.1"
        assert record.pid_of("h21") == lab.pid_of("h21")
    assert network_state() == before
    assert children() == processes
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not (RUN_BASE / LAB).exists()
    assert dict(os.environ) == environment


def test_a_failure_half_way_leaves_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    before, processes = network_state(), children()

    def fail(*_: object) -> None:
        raise LabError("no rates today")

    monkeypatch.setattr("lab_fabric.lay_rates", fail)
    with pytest.raises(LabError, match="no rates today"):
        FabricLab(leaf_spine()).__enter__()
    assert network_state() == before
    assert children() == processes
    assert not (RUN_BASE / LAB).exists()


def test_one_name_is_one_lab() -> None:
    with FabricLab(leaf_spine()), pytest.raises(LabError, match=f"in use by process {os.getpid()}"):
        FabricLab(leaf_spine()).__enter__()


def test_a_cut_is_seen_by_both_switches_and_heals() -> None:
    with FabricLab(leaf_spine()) as lab:
        lay_static_rules(lab)

        def down(switch: str, port: int) -> bool:
            said = lab.ovs.ofctl("dump-ports-desc", switch)
            found = re.search(rf"^ {port}\(.*?state: +(\w+)", said, flags=re.M | re.S)
            assert found is not None, said
            return "LINK_DOWN" in found[1]

        assert not down("leaf1", 11)
        lab.cut_link("leaf1", "spine1")
        assert eventually(lambda: down("leaf1", 11) and down("spine1", 21))
        assert lab.ping_pairs([("h11", "h21")], timeout_s=1.0) == {("h11", "h21"): None}
        lab.restore_link("leaf1", "spine1")
        assert eventually(lambda: not down("leaf1", 11) and not down("spine1", 21))
        assert eventually(lambda: lab.ping_pairs([("h11", "h21")])["h11", "h21"] is not None)
        with pytest.raises(LabError, match="no cable between 'leaf1' and 'leaf2'"):
            lab.cut_link("leaf1", "leaf2")
        with pytest.raises(LabError, match="1 cables; there is no number 1"):
            lab.cut_link("leaf1", "spine1", 1)


def test_counters_and_processors_are_measured() -> None:
    with FabricLab(leaf_spine()) as lab:
        lay_static_rules(lab)
        before, cpu = lab.counters(), lab.cpu()
        assert lab.ping_pairs([("h11", "h21")])["h11", "h21"] is not None
        sent = sent_bytes(before, lab.counters())
        # An echo request is 98 bytes and goes over the first spine.
        assert sent["leaf1-eth11"] >= 98
        assert sent["spine1-eth22"] >= 98
        assert sent["leaf1-eth12"] < 98
        share = cpu_share(cpu, lab.cpu())
        assert 0 <= share.machine <= 1
        assert set(share.process) == {lab.ovs.switch_pid}


def test_filters_come_back_when_queues_are_replaced_over_ovsdb() -> None:
    with FabricLab(leaf_spine()) as lab:

        def filters() -> str:
            return subprocess.check_output(["tc", "filter", "show", "dev", "leaf1-eth11", "parent", "1:"], text=True)

        assert filters().count("match 00680000/00fc0000") == 1
        assert lab.ensure_filters() == 0
        # What a controller may do at any time: another rate and other queues.
        lab.ovs.vsctl("clear", "Port", "leaf1-eth11", "qos")
        assert eventually(lambda: "match" not in filters())
        queues = [
            x for n in (0, 1, 2) for x in ("--", f"--id=@q{n}", "create", "Queue", "other-config:min-rate=100000")
        ]
        rows = [f"queues:{n}=@q{n}" for n in (0, 1, 2)]
        create = ["--", "--id=@new", "create", "QoS", "type=linux-htb", "other-config:max-rate=4000000", *rows]
        lab.ovs.vsctl("set", "Port", "leaf1-eth11", "qos=@new", *create, *queues)
        assert eventually(lambda: filters().count("match 00680000/00fc0000") == 1)
        assert eventually(lambda: lab.ensure_filters() == 0)
        lab.classify(on=False)
        assert "match 00680000/00fc0000" not in filters()
        lab.classify(on=True)
        assert "match 00680000/00fc0000" in filters()


def test_the_switch_daemon_has_a_wide_send_buffer_or_short_queues() -> None:
    with FabricLab(leaf_spine()) as lab:
        assert lab.queue_packets == (160 if lab.ovs.widen_buffers() else 24)
        said = subprocess.check_output(["tc", "qdisc", "show", "dev", "leaf1-eth1"], text=True)
        assert said.count(f"limit {lab.queue_packets}p") == 3


@contextlib.contextmanager
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A TCP port of this namespace; collects the first bytes of whoever connects."""
    heard: list[bytes] = []
    with socket.create_server(("0.0.0.0", 0)) as server:
        server.settimeout(0.2)
        stopping = threading.Event()

        def serve() -> None:
            while not stopping.is_set():
                with contextlib.suppress(TimeoutError, OSError):
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(2.0)
                        heard.append(connection.recv(8))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1], heard
        finally:
            stopping.set()
            thread.join()


def test_switches_reach_a_controller_in_the_machines_own_namespace() -> None:
    before = network_state()
    with listener() as (port, heard):
        with FabricLab(leaf_spine(), controllers=[f"tcp:{{root}}:{port}"]) as lab:
            assert lab.management is not None
            assert lab.controllers == (f"tcp:{lab.management.root_address}:{port}",)
            # OFPT_HELLO of OpenFlow 1.3.
            assert eventually(lambda: any(said[:2] == b"\x04\x00" for said in heard))
            with pytest.raises(LabError, match=r"no controller after 0 s on leaf1, leaf2, spine1, spine2"):
                lab.wait_connected(0.3)
        assert eventually(lambda: network_state() == before), "the management network goes with the namespace"


def test_hosts_announce_themselves_until_switches_are_known_to_be_connected() -> None:
    """Open vSwitch's database is up to five seconds late with it, and a controller is to know the hosts before."""
    import lab

    def announcements(at: socket.socket) -> int:
        found = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                found += at.recv(2048)[12:14] == b"\x08\x06"
        return found

    with FabricLab(leaf_spine(), controllers=["tcp:127.0.0.1:1"]) as running:
        heard = 0
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806)) as at_leaf:
            at_leaf.bind(("leaf1-eth1", 0))
            at_leaf.setblocking(False)
            thread = threading.Thread(target=lab._announce, args=(running, threading.Event()), daemon=True)
            thread.start()
            while heard < 3:
                # Nobody ever connects here: without repetition this never ends.
                heard += announcements(at_leaf)
                assert thread.is_alive()
                time.sleep(0.05)
    thread.join(30)
    assert not thread.is_alive(), "it ends with the lab"


def start_program(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(REPOSITORY / "mininet" / "lab.py"), *arguments, "--name", LAB]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )


TOPOLOGY = """\
name: program
rate: 8M
leaf_spine: {leaves: 2, spines: 1, hosts_per_leaf: 1}
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_program_leaves_nothing_whichever_way_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    before = network_state()
    topology = tmp_path / "program.yaml"
    topology.write_text(TOPOLOGY)
    program = start_program(str(topology), "--wait", "0")
    try:
        assert eventually(lambda: (RUN_BASE / LAB / "lab.json").exists()), program.communicate(timeout=5)
        record = attach(LAB)
        pids = [record.namespace_pid, *(host.pid for host in record.hosts)]
        assert network_state() != before, "a management network joins the lab to this namespace"
        program.send_signal(number)
        output, errors = program.communicate(timeout=30)
    finally:
        program.kill()
        program.wait()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    assert eventually(lambda: network_state() == before)
    if number == signal.SIGKILL:
        # Nobody was left to remove the directory; the next lab of this name does.
        with FabricLab(leaf_spine()):
            assert attach(LAB).namespace_pid != record.namespace_pid
    else:
        assert "is down; nothing is left of it" in output, errors
    assert not (RUN_BASE / LAB).exists()


def test_the_program_ends_by_itself_and_says_what_it_made(tmp_path: Path) -> None:
    topology = tmp_path / "program.yaml"
    topology.write_text(TOPOLOGY)
    program = start_program(str(topology), "--controller", "none", "--for", "0.2")
    output, errors = program.communicate(timeout=60)
    assert program.returncode == 0, errors
    assert "3 switches, 2 cables, 2 hosts" in output
    assert f"{RUN_BASE}/{LAB}/db.sock" in output


def test_the_program_says_what_is_wrong_with_its_topology(tmp_path: Path) -> None:
    program = start_program(str(tmp_path / "missing.yaml"))
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "missing.yaml" in errors
    assert "Traceback" not in errors
