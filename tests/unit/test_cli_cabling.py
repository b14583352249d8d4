"""`heddle cabling` and `heddle export`: what they print, draw and write, and the exit codes."""

import json
from pathlib import Path

import pytest
from cli_fakes import RATE_BPS, Fake, endpoint, serving, topology
from heddle.v1 import fabric_pb2

from controller.cli.cabling_view import picture
from controller.cli.fabric_seen import meant_plan, seen_fabric
from controller.cli.main import invoke
from controller.cli.picture import draw
from controller.fabric.cabling import SeenCable, SeenEnd, SeenFabric, SeenSwitch, of_fabric_plan, outline
from controller.fabric.cabling_verdict import verdict
from controller.formats import topology_file
from controller.formats.plan_files import load_text

PLAN = "name: meant\nrate: 100G\nleaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 2}\n"


def faulty() -> fabric_pb2.GetTopologyResponse:
    """Two swapped cables, one missing, one whose ports are slow."""
    answer = topology()
    one, slow, gone, other = answer.links
    one.b.CopyFrom(endpoint("spine2", 2))
    other.b.CopyFrom(endpoint("spine1", 1))
    slow.a_speed_bps = slow.b_speed_bps = 40 * 10**9
    answer.links.remove(gone)
    return answer


def with_plan(answer: fabric_pb2.GetTopologyResponse) -> fabric_pb2.GetTopologyResponse:
    """As a controller answers whose topology file says what `cli_fakes.topology` shows."""
    for switch in topology().switches:
        answer.plan.switches.add(name=switch.name, dpid=switch.dpid, role=switch.role)
    for link in topology().links:
        answer.plan.links.add(a=link.a, b=link.b, rate_bps=RATE_BPS)
    for host in topology().hosts:
        answer.plan.hosts.add(name=host.name, addresses=host.addresses, port=host.port, rate_bps=RATE_BPS)
    answer.plan.name = "controllers"
    return answer


@pytest.fixture
def meant(tmp_path: Path) -> Path:
    path = tmp_path / "meant.yaml"
    path.write_text(PLAN)
    return path


def test_a_fabric_as_meant_is_one_line_and_success(meant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["cabling", "--plan", str(meant), "--controller", fake.address]) == 0
    assert capsys.readouterr().out.strip() == "plan meant: 8 of 8 cables right"


def test_every_fault_is_named_and_the_exit_code_says_so(meant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(topology=faulty())) as fake:
        assert invoke(["cabling", "--plan", str(meant), "--json", "--controller", fake.address]) == 1
        verdict = json.loads(capsys.readouterr().out)
        assert invoke(["cabling", "--plan", str(meant), "--controller", fake.address]) == 1
        table = capsys.readouterr().out
    assert [finding["kind"] for finding in verdict["findings"]] == ["missing", "miswired", "miswired", "wrong rate"]
    assert (verdict["planned"], verdict["right"], verdict["holds"]) == (8, 4, False)
    rate = verdict["findings"][3]
    assert (rate["expected"], rate["found"]) == ("leaf1:2 to spine2:1 at 100 Gb/s", "40 Gb/s (say the ports)")
    assert "1 missing, 2 miswired, 1 wrong rate" in table
    assert "leaf2:1 to spine1:2" in table


def test_without_a_file_the_controllers_own_plan_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(topology=with_plan(faulty()))) as fake:
        assert invoke(["cabling", "--json", "--controller", fake.address]) == 1
        assert fake.requests[-1].with_plan
    verdict = json.loads(capsys.readouterr().out)
    assert (verdict["plan"], verdict["right"]) == ("controllers", 4)


def test_what_is_no_plan_ends_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "blocks").write_text("BlockName=b Nodes=n1\n")
    (tmp_path / "broken").write_text("SwitchName=a Nodes=(null)\n")
    with serving(Fake()) as fake:
        at = ["--controller", fake.address]
        assert invoke(["cabling", *at]) == 2
        assert "say what was meant with --plan FILE" in capsys.readouterr().err
        assert invoke(["cabling", "--plan", str(tmp_path / "blocks"), *at]) == 2
        assert "says nothing about cables" in capsys.readouterr().err
        assert invoke(["cabling", "--plan", str(tmp_path / "broken"), *at]) == 2
        assert "broken:1: " in capsys.readouterr().err


def test_the_picture_draws_each_fault_as_what_it_is(tmp_path: Path, meant: Path) -> None:
    file = tmp_path / "cabling.png"
    with serving(Fake(topology=faulty())) as fake:
        assert invoke(["cabling", "--plan", str(meant), "--png", str(file), "--controller", fake.address]) == 1
    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    seen = seen_fabric(faulty())
    drawn = draw(picture(verdict(load_text(PLAN), seen), seen))
    ids = sorted(line.get_gid() for line in drawn.axes[0].lines if (line.get_gid() or "").startswith("cable:"))
    assert ids == [
        "cable:missing:leaf1-spine1",
        "cable:missing:leaf2-spine1",
        "cable:missing:leaf2-spine2",
        "cable:miswired:leaf1-spine2",
        "cable:miswired:leaf2-spine1",
        "cable:wrong rate:leaf1-spine2",
    ]


def test_the_picture_marks_hosts_in_wrong_ports_and_those_not_seen() -> None:
    text = "name: r\nrate: 100G\nleaf_spine: {leaves: 2, spines: 1, hosts_per_leaf: 2, rails: 2}"
    plan = of_fabric_plan(topology_file.load_text(text))
    hosts = {("h1_1", "nic1"): "leaf2:2", ("h1_1", "nic2"): "leaf1:2", ("h1_2", "nic1"): "leaf1:3"}
    cables = [(leaf, 1, "spine1", number) for number, leaf in enumerate(("leaf1", "leaf2"), 1)]
    seen = SeenFabric(
        tuple(SeenSwitch(s.name, s.role) for s in plan.switches),
        {"h1_1": (), "h1_2": ()},
        (
            *(SeenCable(SeenEnd(a, i), SeenEnd(b, j)) for a, i, b, j in cables),
            *(SeenCable(SeenEnd(host[0], None, host[1]), _seen_end(port)) for host, port in hosts.items()),
        ),
    )
    drawn = draw(picture(verdict(plan, seen), seen))
    ids = sorted(line.get_gid() for line in drawn.axes[0].lines if (line.get_gid() or "").startswith("cable:"))
    assert [each for each in ids if "spine" not in each] == [
        "cable:host not seen:leaf2-h1_2:2",
        "cable:miswired:leaf1-h1_1:2",
        "cable:miswired:leaf2-h1_1:1",
    ]


def _seen_end(port: str) -> SeenEnd:
    switch, _, number = port.partition(":")
    return SeenEnd(switch, int(number))


def test_a_picture_that_cannot_be_written_is_said(meant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["cabling", "--plan", str(meant), "--png", "/no/such/x.png", "--controller", fake.address]) == 1
    assert "cannot write /no/such/x.png" in capsys.readouterr().err


def test_export_writes_what_is_up_and_names_what_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = topology()
    answer.links[0].state = "down"
    file = tmp_path / "topology.conf"
    with serving(Fake(topology=answer)) as fake:
        at = ["--controller", fake.address]
        assert invoke(["export", "slurm-conf", *at]) == 0
        text = capsys.readouterr().out
        assert invoke(["export", "slurm-conf", "-o", str(file), *at]) == 0
        assert capsys.readouterr().out == ""
        assert invoke(["export", "kueue", "--json", *at]) == 2
    assert file.read_text() == text
    assert "SwitchName=spine1 Switches=leaf2\n" in text
    assert "# left out, down: leaf1:leaf1-eth1 to spine1:spine1-eth1" in text
    assert "no name of a Kubernetes node" in capsys.readouterr().err


def test_export_of_a_plan_needs_no_controller(meant: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["export", "slurm-yaml", "--plan", str(meant), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert outline(load_text(answer["text"])) == outline(load_text(PLAN))
    assert answer["unusable_cables"] == []


def test_the_controllers_plan_is_read_as_it_was_written() -> None:
    plan = meant_plan(with_plan(topology()).plan)
    assert verdict(plan, seen_fabric(topology())).holds
    assert outline(plan) == outline(load_text(PLAN))
