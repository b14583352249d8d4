"""What the QoS and Queue rows of one bridge should be, and the least change of a database that gets there.

Rows are those of the `ovs` library's replica; nothing here waits or talks to a server. The columns are described in
ovs-vswitchd.conf.db(5). What it decides:

- Rows of ours bear external_ids:heddle = "<datapath id>:<port>". They are kept exactly as wanted; those that no port
  uses any more are removed, and a port that is no longer wanted loses ours.
- A foreign QoS row that only states the link rate (linux-htb without queues, as the lab lays it) is superseded: the
  port points to our row instead. Its max-rate is taken over when the wanted rate is unknown (0). The row itself stays.
- Any other foreign QoS row was made by a person for a purpose. It is left alone and reported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.qos.queues import PortQueues, Queue

TAG = "heddle"
QOS_TYPE = "linux-htb"

# Exactly what is read or written. Replicating more would wake this process for every statistics update of every port.
SCHEMA: dict[str, Any] = {
    "name": "Open_vSwitch",
    "version": "8.0.0",
    "tables": {
        "Bridge": {
            "columns": {
                "name": {"type": "string", "mutable": False},
                "datapath_id": {"type": {"key": "string", "min": 0, "max": 1}, "ephemeral": True},
                "fail_mode": {"type": {"key": "string", "min": 0, "max": 1}},
                "ports": {"type": {"key": {"type": "uuid", "refTable": "Port"}, "min": 0, "max": "unlimited"}},
            }
        },
        "Port": {
            "columns": {
                "name": {"type": "string", "mutable": False},
                "interfaces": {
                    "type": {"key": {"type": "uuid", "refTable": "Interface"}, "min": 1, "max": "unlimited"}
                },
                "qos": {"type": {"key": {"type": "uuid", "refTable": "QoS"}, "min": 0, "max": 1}},
            }
        },
        "Interface": {
            "columns": {
                "name": {"type": "string", "mutable": False},
                "ofport": {"type": {"key": "integer", "min": 0, "max": 1}},
                "mtu": {"type": {"key": "integer", "min": 0, "max": 1}},
                "bfd": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
                "bfd_status": {
                    "type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"},
                    "ephemeral": True,
                },
                "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
            }
        },
        "QoS": {
            "isRoot": True,
            "columns": {
                "type": {"type": "string"},
                "queues": {
                    "type": {
                        "key": {"type": "integer", "minInteger": 0, "maxInteger": 4294967295},
                        "value": {"type": "uuid", "refTable": "Queue"},
                        "min": 0,
                        "max": "unlimited",
                    }
                },
                "other_config": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
                "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
            },
        },
        "Queue": {
            "isRoot": True,
            "columns": {
                "other_config": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
                "external_ids": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
            },
        },
    },
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Port numbers: `changed` were written, `missing` are not in the database (yet), `foreign` are somebody else's."""

    changed: tuple[int, ...]
    missing: tuple[int, ...]
    foreign: tuple[int, ...]
    # Port number -> MTU in bytes, of all ports that have one.
    mtu_bytes: Mapping[int, int] = field(default_factory=dict, kw_only=True)
    # The bridge, if it forgets its rules and floods when it has no controller (fail_mode standalone, the default).
    standalone: str = ""


def reconcile(tables: Mapping[str, Any], transaction: Any, dpid: int, wanted: Iterable[PortQueues]) -> Outcome | None:
    """Writes what differs, if anything, into `transaction`; None when no bridge here has this datapath id."""
    bridge = bridge_of(tables, dpid)
    return None if bridge is None else _Bridge(tables, transaction, dpid, bridge).reconcile(wanted)


def bridge_of(tables: Mapping[str, Any], dpid: int) -> Any | None:
    """The row of the bridge with this datapath id."""
    wanted = f"{dpid:016x}"
    return next((row for row in tables["Bridge"].rows.values() if row.datapath_id[:1] == [wanted]), None)


class _Bridge:
    """One run over one bridge; collects which of our rows are still used."""

    def __init__(self, tables: Mapping[str, Any], transaction: Any, dpid: int, bridge: Any) -> None:
        self._tables = tables
        self._transaction = transaction
        self._prefix = f"{dpid:016x}:"
        self._ports: dict[int, Any] = {
            number: port for port in bridge.ports for interface in port.interfaces for number in interface.ofport
        }
        self._mtu_bytes: dict[int, int] = {
            number: interface.mtu[0]
            for port in bridge.ports
            for interface in port.interfaces
            for number in interface.ofport
            if interface.mtu
        }
        self._kept: set[Any] = set()
        self._standalone: str = bridge.name if bridge.fail_mode != ["secure"] else ""

    def reconcile(self, wanted: Iterable[PortQueues]) -> Outcome:
        changed, missing, foreign = [], [], []
        for queues in wanted:
            port = self._ports.get(queues.port_no)
            if port is None:
                missing.append(queues.port_no)
            elif _is_foreign(port):
                foreign.append(queues.port_no)
            elif self._port(port, queues):
                changed.append(queues.port_no)
        # Rows of a port that is missing for the moment are kept: it is expected back.
        kept_tags = {f"{self._prefix}{number}" for number in missing}
        changed += self._release_ports(kept_tags)
        self._delete_unused(kept_tags)
        return Outcome(
            tuple(sorted(changed)), tuple(missing), tuple(foreign), self._standalone, mtu_bytes=self._mtu_bytes
        )

    def _port(self, port: Any, wanted: PortQueues) -> bool:
        """Whether anything had to be written."""
        tag = f"{self._prefix}{wanted.port_no}"
        current = port.qos[0] if port.qos else None
        mine = current is not None and current.external_ids.get(TAG) == tag
        rate = str(wanted.max_rate_bps) if wanted.max_rate_bps else _max_rate(current)
        row: Any = current if mine else self._transaction.insert(self._tables["QoS"])
        written = [
            _write(row, "type", QOS_TYPE, new=not mine),
            _write(row, "other_config", {"max-rate": rate} if rate else {}, new=not mine),
            _write(row, "external_ids", {TAG: tag}, new=not mine),
            self._queues(row, wanted.queues, tag, new=not mine),
        ]
        self._kept.add(row.uuid)
        if not mine:
            # If somebody else sets another QoS in the meantime, the whole decision is made anew.
            port.verify("qos")
            port.qos = [row]
        return any(written)

    def _queues(self, qos: Any, wanted: Iterable[Queue], tag: str, *, new: bool) -> bool:
        before = {} if new else dict(qos.queues)
        after: dict[int, Any] = {}
        written = False
        for queue in wanted:
            row: Any = before.get(queue.queue_id)
            fresh = row is None or row.external_ids.get(TAG) != tag
            if fresh:
                row = self._transaction.insert(self._tables["Queue"])
            written |= _write(row, "other_config", queue_configuration(queue), new=fresh)
            written |= _write(row, "external_ids", {TAG: tag}, new=fresh)
            after[queue.queue_id] = row
            self._kept.add(row.uuid)
        if {number: row.uuid for number, row in before.items()} != {number: row.uuid for number, row in after.items()}:
            qos.queues = after
            written = True
        return written

    def _release_ports(self, kept_tags: set[str]) -> list[int]:
        """Takes our QoS off ports for which none is wanted."""
        released = []
        for number, port in self._ports.items():
            for qos in port.qos:
                if self._is_unused(qos, kept_tags):
                    port.qos = []
                    released.append(number)
        return released

    def _delete_unused(self, kept_tags: set[str]) -> None:
        for table in ("QoS", "Queue"):
            for row in [r for r in self._tables[table].rows.values() if self._is_unused(r, kept_tags)]:
                row.delete()

    def _is_unused(self, row: Any, kept_tags: set[str]) -> bool:
        tag = row.external_ids.get(TAG, "")
        return tag.startswith(self._prefix) and tag not in kept_tags and row.uuid not in self._kept


def queue_configuration(queue: Queue) -> dict[str, str]:
    """Queue:other_config. Whole numbers: Open vSwitch reads "1e8" or "100.0" as the minimum, 12 kbit/s.

    A rate of 0 is unknown and left out.
    """
    rates = {"min-rate": queue.min_rate_bps, "max-rate": queue.max_rate_bps}
    return {name: str(int(rate)) for name, rate in rates.items() if rate} | {"priority": str(queue.priority)}


def _is_foreign(port: Any) -> bool:
    """Whether the port has a QoS that a person made for more than the link's rate."""
    if not port.qos or TAG in port.qos[0].external_ids:
        return False
    return bool(port.qos[0].type != QOS_TYPE or port.qos[0].queues)


def _max_rate(qos: Any | None) -> str | None:
    return None if qos is None else qos.other_config.get("max-rate")


def _write(row: Any, column: str, value: Any, *, new: bool) -> bool:
    if not new and getattr(row, column) == value:
        return False
    setattr(row, column, value)
    return True
