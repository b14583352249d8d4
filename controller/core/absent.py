"""What is believed of switches that an earlier run knew and that have not come back to this one.

A switch that is frozen, or whose session is away, goes on forwarding; a controller that has just started has seen none
of its cables and would take the routes over them away. So remembered cables count from the start, and are given up when
a port at either end goes down, when something else is heard there, or when silence proves something (`fabric.answers`).
A switch of which no such cable leads to one that is there is forgotten.
"""

from collections.abc import Iterable

from controller.core.planning import silent_switches
from controller.core.remembered import Cable, Facts
from controller.core.state import State, SwitchState
from controller.fabric.discovery import Discovery
from controller.fabric.hosts import HostTable
from controller.fabric.model import PortRef
from controller.fabric.reach import reached


def recall(state: State, discovery: Discovery, facts: Facts, now_s: float) -> None:
    """To be called before any switch has connected."""
    discovery.recall(facts.cables, now_s)
    for dpid in {end.dpid for cable in facts.cables for end in cable}:
        state.switches.setdefault(dpid, SwitchState(dpid))


def believe(state: State, discovery: Discovery, hosts: HostTable, usable: Iterable[Cable]) -> None:
    """To be called when everything that is there has had the time to show itself: what is behind switches that are
    away is where it was."""
    forget_unreached(state, discovery, hosts, usable)
    silent = silent_switches(state)

    def could_be_at(port: PortRef) -> bool:
        """The switch cannot tell, be it that it has not come back or that it has gone again; and has not denied it."""
        if port.dpid not in silent:
            return False
        known = discovery.ports.get(port)
        return known.port.up if known is not None else not state.switches[port.dpid].met

    hosts.believe(could_be_at)


def forget_unreached(state: State, discovery: Discovery, hosts: HostTable, usable: Iterable[Cable]) -> None:
    """Forgets the absent switches that nothing leads to any more, with all that was behind them."""
    absent = _absent(state)
    if not absent:
        return
    for dpid in absent - reached(state.switches.keys() - absent, usable):
        del state.switches[dpid]
        hosts.forget_switch(dpid)
        for ref in [ref for ref in discovery.ports if ref.dpid == dpid]:
            discovery.remove_port(ref)


def _absent(state: State) -> frozenset[int]:
    return frozenset(dpid for dpid, switch in state.switches.items() if not switch.met)
