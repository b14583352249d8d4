"""Which of two connections may speak for a datapath id."""

from types import SimpleNamespace

from heddle.southbound.v1 import link_pb2 as pb

from apps.connection import Connection
from apps.registry import Registry, Verdict


def _connection(dpid: int, *addresses: str, host: str = "10.0.0.1", port: int = 1) -> Connection:
    connection = Connection(SimpleNamespace(address=(host, port), xid=0), dpid, 4)
    for number, address in enumerate(addresses, 1):
        connection.add_port(pb.Port(port_no=number, hardware_address=bytes.fromhex(address)))
    return connection


A1, A2, A3 = "020000000001", "020000000002", "020000000003"
B1, B2 = "0200000000b1", "0200000000b2"


def test_the_first_one_is_accepted_and_released() -> None:
    registry = Registry()
    first = _connection(1, A1)
    assert registry.claim(first).verdict is Verdict.ACCEPTED
    assert registry.holds(first)
    assert registry.release(first)
    assert not registry.release(first)
    assert registry.all() == []


def test_the_same_switch_replaces_itself_also_with_other_ports() -> None:
    registry = Registry()
    first, second = _connection(1, A1, A2), _connection(1, A2, A3)
    registry.claim(first)
    claim = registry.claim(second)
    assert (claim.verdict, claim.other) == (Verdict.REPLACES, first)
    # The end of the dead session says nothing about the living one.
    assert not registry.release(first)
    assert registry.holds(second)


def test_another_switch_is_refused_and_reported_once_per_switch_and_conflict() -> None:
    registry = Registry()
    first = _connection(1, A1)
    registry.claim(first)
    verdicts = [registry.claim(_connection(1, B1, port=port)).verdict for port in range(5)]
    assert verdicts == [Verdict.REFUSED] + [Verdict.REFUSED_AGAIN] * 4
    assert registry.claim(_connection(1, B2)).verdict is Verdict.REFUSED
    assert registry.holds(first)
    registry.release(first)
    assert registry.claim(_connection(1, B1)).verdict is Verdict.ACCEPTED
    assert registry.claim(first).verdict is Verdict.REFUSED


def test_no_address_is_no_identity() -> None:
    registry = Registry()
    registry.claim(_connection(1, "000000000000", host="10.0.0.1"))
    assert registry.claim(_connection(1, "000000000000", host="10.0.0.2")).verdict is Verdict.REFUSED
    assert registry.claim(_connection(1, host="10.0.0.1")).verdict is Verdict.REPLACES


def test_only_the_right_session_of_a_switch_that_is_up_is_found() -> None:
    registry = Registry()
    connection = _connection(1, A1)
    registry.claim(connection)
    assert registry.find(1) is None
    connection.describe("Nicira, Inc.", "Open vSwitch", "3.1.0")
    assert registry.find(1) is connection
    assert registry.find(1, connection.session_id) is connection
    assert registry.find(1, "an older session") is None
    assert registry.find(2) is None


def test_a_report_has_the_ports_of_now() -> None:
    connection = _connection(1, A1, A2)
    assert connection.reports() == []
    connection.describe("Nicira, Inc.", "Open vSwitch", "3.1.0")
    connection.add_port(pb.Port(port_no=0xFFFFFFFE, hardware_address=bytes.fromhex(A3)))
    (before,) = connection.reports()
    connection.remove_port(pb.Port(port_no=1))
    (after,) = connection.reports()
    assert [port.port_no for port in before.switch_up.ports] == [1, 2]
    assert [port.port_no for port in after.switch_up.ports] == [2]
    assert after.switch_up.nicira
    assert after.switch_up.peer_address == "10.0.0.1:1"
