"""Queues on a real Open vSwitch: the rows, what the kernel makes of them, and that equal means untouched."""

import asyncio
import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.commands import ConfigureQueues
from controller.qos.queues import PortQueues, Queue
from controller.runtime.ovsdb import QueueConfigurator
from controller.runtime.ovsdb_databases import Databases
from controller.runtime.ovsdb_endpoint import Endpoint, EndpointError
from controller.runtime.ovsdb_reconcile import Outcome, reconcile
from tests.openvswitch.private_ovs import PrivateOvs, in_namespace

DPID = 0x2A
MBPS = 1_000_000


def port_queues(port: int, rate: int, collective: int) -> PortQueues:
    """Two classes; `collective` is what queue 1 is guaranteed."""
    return PortQueues(port, rate, (Queue(0, rate - collective, rate, 2), Queue(1, collective, rate, 1)))


PORTS = (port_queues(1, 100 * MBPS, 70 * MBPS), port_queues(2, 20 * MBPS, 33 * MBPS // 3))


def configure(endpoint: Endpoint, dpid: int, ports: Sequence[PortQueues]) -> Outcome | None:
    return endpoint.do(partial(reconcile, dpid=dpid, wanted=ports))


@pytest.fixture
def ovs() -> Iterator[PrivateOvs]:
    with PrivateOvs() as private:
        private.add_bridge("leaf1", DPID)
        private.add_bridge("spine1", 0x99)
        private.add_veth("leaf1", "leaf1-eth1", 1, "peer1")
        private.add_veth("leaf1", "leaf1-eth2", 2, "peer2")
        yield private


@pytest.fixture
def endpoint(ovs: PrivateOvs) -> Iterator[Endpoint]:
    made = Endpoint(ovs.database)
    yield made
    made.close()


def rows(ovs: PrivateOvs, table: str) -> dict[str, dict[str, str]]:
    """By uuid; `_version` changes with every write to the row."""
    question = json.dumps(["Open_vSwitch", {"op": "select", "table": table, "where": []}])
    command = ["ovsdb-client", "transact", ovs.database, question]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        row["_uuid"][1]: {
            "_version": row["_version"][1],
            **dict(row["external_ids"][1]),
            **dict(row["other_config"][1]),
        }
        for row in answer[0]["rows"]
    }


def qos_of(ovs: PrivateOvs, port: str) -> str:
    return ovs.vsctl("get", "port", port, "QoS").strip()


def tc_classes(port: str) -> dict[str, tuple[str, str]]:
    """class id -> (rate, ceil) as `tc class show` prints them."""
    text = subprocess.run(["tc", "class", "show", "dev", port], capture_output=True, text=True, check=True).stdout
    return {m[1]: (m[2], m[3]) for m in re.finditer(r"class htb (\S+) .*?rate (\S+) ceil (\S+)", text)}


def eventually(true: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline_s, "it never became true"
        time.sleep(0.05)


@in_namespace
def test_rows_and_kernel_classes_are_as_wanted(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    outcome = configure(endpoint, DPID, PORTS)

    assert outcome is not None
    assert outcome.changed == (1, 2)
    qos = rows(ovs, "QoS").values()
    assert {(row["heddle"], row["max-rate"]) for row in qos} == {
        (f"{DPID:016x}:1", str(100 * MBPS)),
        (f"{DPID:016x}:2", str(20 * MBPS)),
    }
    queues = list(rows(ovs, "Queue").values())
    assert len(queues) == 4
    assert all(re.fullmatch(r"\d+", row[key]) for row in queues for key in ("min-rate", "max-rate", "priority"))
    # The kernel calls queue n class n + 1.
    eventually(lambda: tc_classes("leaf1-eth1").get("1:2") == ("70Mbit", "100Mbit"))
    assert tc_classes("leaf1-eth1")["1:1"] == ("30Mbit", "100Mbit")
    eventually(lambda: tc_classes("leaf1-eth2").get("1:2") == ("11Mbit", "20Mbit"))
    # Where something else holds the port's tc tree, OVSDB goes on showing queues that the switch does not have.
    eventually(lambda: re.findall(r"queue (\d+):", ovs.ofctl("queue-stats", "leaf1", "1")) == ["0", "1"])


@in_namespace
def test_equal_queues_are_not_written_again(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    configure(endpoint, DPID, PORTS)
    eventually(lambda: "1:2" in tc_classes("leaf1-eth2"))
    before = {table: rows(ovs, table) for table in ("QoS", "Queue", "Port")}
    log = ovs.run_dir / "conf.db"
    written = log.read_bytes().count(b'"Queue"')

    again = configure(endpoint, DPID, PORTS)
    fresh = Endpoint(ovs.database)  # a controller that starts anew knows nothing of what it wrote before
    anew = configure(fresh, DPID, PORTS)
    fresh.close()

    assert again is not None
    assert anew is not None
    assert again.changed == anew.changed == ()
    assert {table: rows(ovs, table) for table in ("QoS", "Queue", "Port")} == before
    assert log.read_bytes().count(b'"Queue"') == written > 0


@in_namespace
def test_another_weight_touches_only_its_port(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    configure(endpoint, DPID, PORTS)
    before = rows(ovs, "Queue")

    outcome = configure(endpoint, DPID, (PORTS[0], port_queues(2, 20 * MBPS, 15 * MBPS)))

    assert outcome is not None
    assert outcome.changed == (2,)
    after = rows(ovs, "Queue")
    changed = {after[uuid]["heddle"] for uuid in after if after[uuid] != before[uuid]}
    assert after.keys() == before.keys()
    assert changed == {f"{DPID:016x}:2"}
    eventually(lambda: tc_classes("leaf1-eth2").get("1:2") == ("15Mbit", "20Mbit"))


@in_namespace
def test_link_rate_of_the_lab_is_taken_over_when_ours_is_unknown(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    created = ["--", "--id=@q", "create", "qos", "type=linux-htb", "other-config:max-rate=7000000"]
    ovs.vsctl("set", "port", "leaf1-eth1", "qos=@q", *created)
    theirs = qos_of(ovs, "leaf1-eth1")

    configure(endpoint, DPID, (PortQueues(1, 0, (Queue(0, 5 * MBPS, 0, 0),)),))

    ours = qos_of(ovs, "leaf1-eth1")
    assert ours != theirs
    assert rows(ovs, "QoS")[ours]["max-rate"] == "7000000"
    assert theirs in rows(ovs, "QoS"), "the lab's row is the lab's to delete"

    configure(endpoint, DPID, (port_queues(1, 9 * MBPS, MBPS),))
    assert rows(ovs, "QoS")[qos_of(ovs, "leaf1-eth1")]["max-rate"] == str(9 * MBPS)


@in_namespace
def test_somebody_elses_queues_are_left_alone(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    queue = ["--", "--id=@u", "create", "queue", "other-config:min-rate=1000"]
    ovs.vsctl(
        "set", "port", "leaf1-eth1", "qos=@q", "--", "--id=@q", "create", "qos", "type=linux-htb", "queues:0=@u", *queue
    )
    theirs = qos_of(ovs, "leaf1-eth1")

    outcome = configure(endpoint, DPID, PORTS)

    assert outcome is not None
    assert outcome.foreign == (1,)
    assert outcome.changed == (2,)
    assert qos_of(ovs, "leaf1-eth1") == theirs


@in_namespace
def test_rows_that_no_port_uses_any_more_are_removed(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    configure(endpoint, DPID, PORTS)
    ovs.vsctl("clear", "port", "leaf1-eth1", "QoS")  # leaves ours behind, unused

    configure(endpoint, DPID, PORTS[:1])  # and port 2 is no longer wanted

    assert qos_of(ovs, "leaf1-eth2") == "[]"
    assert {row["heddle"] for row in rows(ovs, "QoS").values()} == {f"{DPID:016x}:1"}
    assert {row["heddle"] for row in rows(ovs, "Queue").values()} == {f"{DPID:016x}:1"}
    assert len(rows(ovs, "Queue")) == 2


@in_namespace
def test_port_that_is_missing_is_said_and_the_others_are_set(ovs: PrivateOvs, endpoint: Endpoint) -> None:
    outcome = configure(endpoint, DPID, (*PORTS, port_queues(7, MBPS, 1000)))

    assert outcome is not None
    assert outcome.missing == (7,)
    assert outcome.changed == (1, 2)


@in_namespace
def test_switch_of_another_database_is_none_of_this_one(endpoint: Endpoint) -> None:
    assert configure(endpoint, 0xDEAD, PORTS) is None


@in_namespace
def test_a_switch_that_would_flood_without_its_controller_is_said_once(ovs: PrivateOvs) -> None:
    """Open vSwitch's own default; nothing on the switch is changed."""
    ovs.vsctl("del-fail-mode", "leaf1")

    async def scenario() -> list[MutableMapping[str, Any]]:
        configurator = QueueConfigurator(Databases(lambda: [ovs.database]))
        with capture_logs() as logs:
            for _ in range(2):
                configurator.perform(ConfigureQueues(DPID, PORTS))
                async with asyncio.timeout(60):
                    while configurator.busy:
                        await asyncio.sleep(0.05)
        await configurator.stop()
        return logs

    said = [entry for entry in asyncio.run(scenario()) if "flood" in str(entry["event"])]
    assert [(entry["log_level"], entry["switch"], entry["cure"]) for entry in said] == [
        ("warning", f"{DPID:x}", "ovs-vsctl set-fail-mode leaf1 secure")
    ]
    assert ovs.vsctl("get-fail-mode", "leaf1").strip() == ""


@in_namespace
def test_configurator_finds_a_database_that_comes_up_later(ovs: PrivateOvs, tmp_path: Path) -> None:
    hidden = tmp_path / "db.sock"
    endpoints: list[str] = [f"unix:{tmp_path}/nobody.sock"]

    async def scenario() -> None:
        configurator = QueueConfigurator(Databases(lambda: endpoints), first_retry_s=0.1)
        configurator.perform(ConfigureQueues(DPID, PORTS))
        await asyncio.sleep(0.3)
        assert not rows(ovs, "QoS")
        hidden.symlink_to(ovs.run_dir / "db.sock")  # the lab comes up later than the controller
        endpoints.append(f"unix:{hidden}")
        async with asyncio.timeout(60):
            while len(await asyncio.to_thread(rows, ovs, "Queue")) != 4:
                await asyncio.sleep(0.1)
        await configurator.stop()

    asyncio.run(scenario())


def test_unreachable_database_is_an_error_within_the_timeout(tmp_path: Path) -> None:
    endpoint = Endpoint(f"unix:{tmp_path}/nobody.sock", timeout_s=0.5)

    began_s = time.monotonic()
    with pytest.raises(EndpointError, match=r"nobody\.sock"):
        configure(endpoint, DPID, PORTS)
    assert time.monotonic() - began_s < 20
    with pytest.raises(EndpointError, match="a moment ago"):
        configure(endpoint, DPID, PORTS)
