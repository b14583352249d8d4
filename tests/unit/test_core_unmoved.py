"""What must change nothing on any switch: other words for a port, counters that say nothing."""

from dataclasses import replace

from core_model import all_to_all, ask, started
from fabrics import leaf, plan

from controller.core import views
from controller.core.commands import Accepted, SendBatch
from controller.core.events import CollectiveAnnounced, PortChanged, PortCounters, PortStatisticsRead
from controller.fabric.model import PortRef

FABRIC = plan(leaves=2, spines=2, hosts=2)


def test_another_name_for_a_port_changes_no_rule() -> None:
    """A description edited on a running fabric was a cold start elsewhere (faucet issues 4669 and 3345)."""
    core, network = started(FABRIC)
    ask(network, CollectiveAnnounced(1, all_to_all(FABRIC)))
    paths = dict(core.state.paths)
    before_s = network.now_s
    session = core.state.switches[leaf(1)].session_id
    assert session is not None
    for port_no in (1, 3):
        known = core.discovery.ports[PortRef(leaf(1), port_no)].port
        network.inject(PortChanged(leaf(1), session, replace(known, name="to the new rack")))
    network.run_until_quiet(60)
    assert network.record.commands_of(SendBatch, since_s=before_s) == []
    assert core.state.paths == paths
    assert core.discovery.ports[PortRef(leaf(1), 1)].port.name == "to the new rack"


def test_counters_that_the_switch_does_not_have_are_no_reason_not_to_place() -> None:
    """All-ones counters crashed a statistics collector (faucet issue 356)."""
    core, network = started(FABRIC)
    unknown = PortCounters(None, None)
    for switch in core.state.switches.values():
        assert switch.session_id is not None
        counters = {ref.port_no: unknown for ref in core.discovery.ports if ref.dpid == switch.dpid}
        for later_s in (0.1, 1.2):
            core.handle(PortStatisticsRead(switch.dpid, switch.session_id, counters), network.now_s + later_s)
    assert isinstance(ask(network, CollectiveAnnounced(1, all_to_all(FABRIC))), Accepted)
    assert views.plans(core, "job")[0].state == "placed"
