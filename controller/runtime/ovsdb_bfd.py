"""What the `bfd` column of a bridge's interfaces should be, the least change that gets there, and what they answer.

Rows are those of the `ovs` library's replica; nothing here waits or talks to a server. The columns are described in
ovs-vswitchd.conf.db(5). What it decides: an interface on which we have turned BFD on bears external_ids:heddle-bfd and
is kept exactly as wanted, or cleared. BFD that somebody else has set up is read, and left alone.

Each packet costs the switch daemon about a quarter of a millisecond where it forwards in software. So the interval
grows where one daemon would have to send more than so many a second for all its ports together.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from controller.health.bfd import BfdSettings, Session
from controller.runtime.ovsdb_reconcile import bridge_of

TAG = "heddle-bfd"
_PACKETS_PER_S = 1000
_MS_PER_S = 1000


def reconcile_bfd(
    tables: Mapping[str, Any], transaction: Any, *, dpid: int, ports: frozenset[int] | None, settings: BfdSettings
) -> frozenset[int] | None:
    """Writes what differs; the ports that are not in the database (yet). None when no bridge here has this datapath id.
    `ports` None: nothing is written."""
    del transaction  # The rows write into it by themselves.
    bridge = bridge_of(tables, dpid)
    if bridge is None:
        return None
    interfaces = _interfaces(bridge)
    if ports is None:
        return frozenset()
    for number, interface in interfaces.items():
        _mark(interface, wanted=number in ports)
    # All of the daemon's, since what one more port adds counts for all.
    marked = [row for row in tables["Interface"].rows.values() if TAG in row.external_ids]
    configuration = bfd_configuration(settings, len(marked))
    for interface in marked:
        if interface.bfd != configuration:
            interface.bfd = configuration
    return ports - interfaces.keys()


def all_sessions(tables: Mapping[str, Any], transaction: Any) -> dict[int, dict[int, Session]]:
    """How BFD stands at the ports that run it, for every bridge by datapath id."""
    del transaction
    return {
        int(bridge.datapath_id[0], 16): {
            number: _session(interface.bfd_status)
            for number, interface in _interfaces(bridge).items()
            if interface.bfd_status
        }
        for bridge in tables["Bridge"].rows.values()
        if bridge.datapath_id
    }


def bfd_configuration(settings: BfdSettings, ports: int) -> dict[str, str]:
    """Interface:bfd, where one daemon runs it on so many ports. Open vSwitch sends at the slower of `min_tx` and what
    the far end accepts, `min_rx`."""
    times = 1 if settings.exact else max(1, ceil(ports * _MS_PER_S / settings.interval_ms / _PACKETS_PER_S))
    interval = str(settings.interval_ms * times)
    return {"enable": "true", "min_rx": interval, "min_tx": interval, "mult": str(settings.multiplier)}


def _session(status: Mapping[str, str]) -> Session:
    """`forwarding` is what groups go by: it is false also where the far end says that it does not forward."""
    return Session.UP if status.get("state") == "up" and status.get("forwarding") == "true" else Session.DOWN


def _interfaces(bridge: Any) -> dict[int, Any]:
    return {number: row for port in bridge.ports for row in port.interfaces for number in row.ofport}


def _mark(interface: Any, *, wanted: bool) -> None:
    """Takes an interface, unless somebody else has set up its BFD, or gives it back."""
    ours = TAG in interface.external_ids
    if wanted is ours or (interface.bfd and not ours):
        return
    if wanted:
        interface.external_ids = {**interface.external_ids, TAG: "on"}
        return
    interface.external_ids = {key: value for key, value in interface.external_ids.items() if key != TAG}
    interface.bfd = {}
