"""What the controller tells `heddle cabling`: what was meant, what is there, and which speeds can be believed."""

from dataclasses import replace

import pytest
from fabrics import leaf, plan
from heddle.v1 import fabric_pb2

from controller.cli.fabric_seen import meant_plan, seen_fabric
from controller.core import views
from controller.core.machine import Core
from controller.core.settings import CoreSettings
from controller.fabric.cabling_verdict import verdict
from controller.fabric.model import PortRef
from controller.fabric.plan import FabricPlan
from controller.runtime.grpc_messages import to_message
from controller.simulation.network import ModelNetwork


def found(meant: FabricPlan | None, built: FabricPlan) -> tuple[Core, fabric_pb2.GetTopologyResponse]:
    core = Core(CoreSettings(beacon_key=b"k" * 32, plan=meant))
    network = ModelNetwork(built, core, seed=1)
    network.run_until_quiet(30)
    network.announce_hosts(within_s=1.0)
    network.run_until_quiet(30)
    return core, to_message(views.topology(core, network.now_s), fabric_pb2.GetTopologyResponse)


def test_a_controller_compares_its_own_plan_with_what_it_finds() -> None:
    meant = plan(leaves=2, spines=2, hosts=1)
    one, other = meant.links[0], meant.links[3]
    swapped = (replace(one, b=other.b, b_port=other.b_port), replace(other, b=one.b, b_port=one.b_port))
    built = replace(meant, links=(swapped[0], *meant.links[1:3], swapped[1]))
    core, answer = found(meant, built)
    told = meant_plan(to_message(views.cabling_plan(core), fabric_pb2.CablingPlan))
    wrong = verdict(told, seen_fabric(answer))
    assert [(f.kind.value, f.expected, f.cure) for f in wrong.findings] == [
        ("miswired", "leaf1:1 to spine1:1", "swap the plugs in spine1:1 and spine2:2"),
        ("miswired", "leaf2:2 to spine2:2", "swap the plugs in spine2:2 and spine1:1"),
    ]
    core, answer = found(meant, meant)
    assert verdict(told, seen_fabric(answer)).holds


def test_a_controller_without_a_plan_says_so() -> None:
    core, _ = found(None, plan())
    assert views.cabling_plan(core) is None


@pytest.mark.parametrize(
    ("speed_bps", "nicira", "believed_bps"),
    [(40 * 10**9, True, 40 * 10**9), (10 * 10**9, True, 0), (10 * 10**9, False, 10 * 10**9), (0, False, 0)],
)
def test_the_speed_of_virtual_ports_is_not_believed(speed_bps: int, nicira: bool, believed_bps: int) -> None:
    core, _ = found(None, plan())
    view, ref = core.state.view, PortRef(leaf(1), 1)
    known = core.discovery.ports[ref]
    known.port = replace(known.port, speed_bps=speed_bps)
    core.state.view = replace(
        view,
        switches={**view.switches, ref.dpid: replace(view.switches[ref.dpid], nicira=nicira)},
    )
    links = views.topology(core, 0.0).links
    assert [link.a_speed_bps for link in links if (link.a.dpid, link.a.port_no) == (leaf(1), 1)] == [believed_bps]
