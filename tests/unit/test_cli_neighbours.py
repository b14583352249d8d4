"""Neighbours that speak LLDP and are none of our switches, in `heddle topology` and `heddle cabling`."""

import pytest
from cli_fakes import Fake, endpoint, serving, topology

from controller.cli.fabric_seen import seen_fabric
from controller.cli.main import invoke


def test_neighbours_that_are_none_of_ours_are_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    answer = topology()
    answer.neighbours.add(
        port=endpoint("leaf1", 9), kind="NIC", name="50:6b:4b:f6:1e:b3", port_name="ConnectX-4 Lx", summary="NIC"
    )
    with serving(Fake(topology=answer)) as fake:
        assert invoke(["topology", "--controller", fake.address]) == 0
        printed = capsys.readouterr().out
        assert invoke(["topology", "--controller", fake.address, "--json"]) == 0
        assert '"port_name": "ConnectX-4 Lx"' in capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if "50:6b:4b:f6:1e:b3" in line]
    assert "NIC" in row
    assert "leaf1:9" in row


def test_a_neighbour_at_a_port_with_a_host_or_a_link_adds_nothing_to_the_cabling() -> None:
    answer = topology()
    free, taken = endpoint("leaf1", 9, 0x101), answer.hosts[0].port
    for port, kind in ((free, "switch"), (taken, "host"), (answer.links[0].b, "switch")):
        answer.neighbours.add(port=port, kind=kind, name="other", port_name="Ethernet32", summary=f"{kind} other")
    (one,) = seen_fabric(answer).neighbours
    assert (str(one.cable.b), str(one.cable.a), one.words) == ("leaf1:9", "other:Ethernet32", "switch other")
