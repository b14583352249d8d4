"""One OpenFlow connection of one switch, from its first message to its end, and the greenlet that sends to it.

It knows what the switch said about itself. Whether the connection may stand beside another one is `registry`'s
decision; what goes over it is `session`'s.
"""

import uuid
from collections.abc import Callable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.lib import hub

from apps.codec_decode import is_cable
from apps.session import SwitchSession

_NO_ADDRESS = bytes(6)


class Connection:
    """`ports` are the cabled ones by number; `addresses` the hardware addresses of all ports, the local one too."""

    def __init__(self, datapath: Any, dpid: int, n_tables: int) -> None:
        self.datapath = datapath
        self.dpid = dpid
        self.session_id = uuid.uuid4().hex
        self.ports: dict[int, link_pb2.Port] = {}
        self.addresses: set[bytes] = set()
        self.session = SwitchSession(datapath, dpid, self.session_id, self._next_xid)
        self.switch_up: link_pb2.SwitchUp | None = None
        # What the switch says it has room for; a switch that does not say leaves them empty.
        self.table_limits: list[link_pb2.TableLimit] = []
        self.max_failover_groups = 0
        self._n_tables = n_tables
        self._wake = hub.Queue(1)
        self._sender: Any = None

    @property
    def peer_address(self) -> str:
        host, port = self.datapath.address[:2]
        return f"{host}:{port}"

    def add_port(self, port: link_pb2.Port) -> None:
        self.addresses.add(bytes(port.hardware_address))
        self.addresses.discard(_NO_ADDRESS)
        if is_cable(port.port_no):
            self.ports[port.port_no] = port

    def remove_port(self, port: link_pb2.Port) -> None:
        self.ports.pop(port.port_no, None)

    def describe(self, manufacturer: str, hardware: str, software: str) -> None:
        """The last thing that was missing: from now on the switch counts as up."""
        self.switch_up = link_pb2.SwitchUp(
            dpid=self.dpid,
            session_id=self.session_id,
            peer_address=self.peer_address,
            n_tables=self._n_tables,
            manufacturer=manufacturer,
            hardware=hardware,
            software=software,
            nicira=manufacturer.startswith("Nicira"),
            tables=self.table_limits,
            max_failover_groups=self.max_failover_groups,
        )

    def reports(self) -> list[link_pb2.AgentMessage]:
        """SwitchUp with the ports as they are now; nothing while the switch has not fully introduced itself."""
        if self.switch_up is None:
            return []
        self.switch_up.atomic = self.session.atomic
        del self.switch_up.ports[:]
        self.switch_up.ports.extend(self.ports[number] for number in sorted(self.ports))
        return [link_pb2.AgentMessage(switch_up=self.switch_up)]

    def start_sending(self, on_failure: Callable[["Connection"], None]) -> None:
        """Starts the sender; `on_failure` is called from it, inside the exception handler, when it breaks."""
        self._sender = hub.spawn(self._send, on_failure)

    def wake(self) -> None:
        """There may be something to send. Never blocks."""
        if self._wake.empty():
            self._wake.put(None, block=False)

    def close(self) -> None:
        """Ends the connection. Never blocks the caller."""
        self.end(self.datapath)
        if self._sender is not None and self._sender is not hub.getcurrent():
            hub.kill(self._sender)

    @staticmethod
    def end(datapath: Any) -> None:
        """Closes a connection of which no more may be known than Ryu's object.

        Ryu's own close puts an event into the queues of all applications and waits for room there; called from a
        handler of an application whose queue is full, it would wait for itself for ever.
        """
        hub.spawn(datapath.close)

    def _send(self, on_failure: Callable[["Connection"], None]) -> None:
        try:
            # Ryu's send blocks while 16 buffers wait for the socket: this greenlet is the one that may wait.
            while True:
                data = self.session.next_bytes()
                if not data:
                    self._wake.get()
                elif not self.datapath.send(data):
                    return  # The connection is ending; its end is reported by Ryu's state change.
                else:
                    hub.sleep(0)
        except Exception:  # noqa: BLE001 - whatever broke, only this switch's session may suffer.
            on_failure(self)

    def _next_xid(self) -> int:
        """Shares Ryu's counter, so that its own messages on this connection never bear one of our ids."""
        datapath = self.datapath
        datapath.xid = (datapath.xid + 1) & datapath.ofproto.MAX_XID
        return int(datapath.xid)
