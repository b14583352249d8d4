"""A running fabric for a plan: brought up as one, used through a few verbs, and taken down whatever happens.

It decides the order of things; each thing is done by its own module. No controller is part of it: `controllers` says
where the switches look for one.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import lab_hosts
from lab_attach import LabHost, LabRecord, write_record
from lab_bridges import add_bridges, connected_switches, lay_rates, send_one_frame, set_controllers, switch_ports
from lab_checks import check_plan, interface_name
from lab_filters import ClassMap, FilterKeeper
from lab_impair import Relay
from lab_management import ManagementNetwork, join_to_root
from lab_meters import CpuReading, PortCounters, read_counters, read_cpu
from lab_namespace import LabError, private_network, require_root, run
from lab_nodes import configure_hosts, end_nodes, make_cables, make_nodes
from lab_ovs import RUN_BASE, PrivateOvs, check_tools

from controller.qos.classes import QosSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from types import TracebackType

    from mininet.net import Mininet

    from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink

# In a controller's target, stands for the machine's end of the management network.
ROOT_END = "{root}"
# Deep enough for four connections that meet on one link, each with its whole window (see roce_traffic): RoCE fabrics
# are lossless by priority flow control, which Linux does not have, so depth stands for it.
QUEUE_PACKETS = 160
# Frames that a port may send at once after its timer was late.
BURST_FRAMES = 4
# Where the switch daemon's shared send buffer cannot be widened, about 90 frames anywhere fill it.
_QUEUE_PACKETS_IN_SHARED_BUFFER = 24
_TOOLS = ("ip", "tc", "ethtool", "mnexec", "ping", "sysctl")


class FabricLab:
    """A fabric in a namespace of its own; a context manager.

    Args:
        plan: what is built. Raises LabError, naming every fault, before anything is made.
        controllers: OpenFlow targets, "tcp:127.0.0.1:6653" for one inside the lab's namespace, "tcp:{root}:6653" for
            one in the machine's own (the two are then joined by a management network). Empty: no controller.
        name: the lab's name, of /run/heddle/<name> and of the management network; the plan's name unless given.
        private: False builds in the namespace that the caller already is in, which must be private to it.
        settings: traffic classes. Each switch port gets one queue per class until a controller says otherwise.
        mtu: of every interface, bytes.
        relayed: switches whose cables to one another pass through a relay, so that `impair` can make them lose packets.
        progress: told what is being done, for people.

    The calling thread lives in the lab's namespace meanwhile, and so does what it starts. Start the lab from a thread
    that outlives it: the switch daemon dies with the thread that started it.
    """

    def __init__(
        self,
        plan: FabricPlan,
        *,
        controllers: Sequence[str] = (),
        name: str | None = None,
        private: bool = True,
        settings: QosSettings | None = None,
        mtu: int = 1500,
        relayed: Iterable[tuple[str, str]] = (),
        progress: Callable[[str], object] = lambda _step: None,
    ) -> None:
        self.plan = plan
        self.name = name or plan.name
        self.mtu = mtu
        self.net: Mininet
        self.ovs: PrivateOvs
        self.management: ManagementNetwork | None = None
        self.controllers = tuple(controllers)
        self._private = private
        self._settings = settings or QosSettings()
        # By interface ("h1:2"), and by name, which means the first one.
        self._interfaces = {host.label: host for host in plan.hosts}
        self._relays = {
            link: Relay(*_ends(link), number)
            for number, link in enumerate(link for a, b in relayed for link in self.cables(a, b))
        }
        self._hosts = {host.name: host for host in sorted(plan.hosts, key=lambda host: -host.nic)} | self._interfaces
        self._filters: FilterKeeper
        self._stack = ExitStack()
        self._progress = progress
        self.queue_packets = QUEUE_PACKETS
        self.closed = False

    @property
    def directory(self) -> Path:
        """Holds `db.sock`, logs and pid files."""
        return RUN_BASE / self.name

    def __enter__(self) -> FabricLab:
        require_root()
        check_plan(self.plan)
        if "/" in self.name or self.name in ("", ".", ".."):
            raise LabError(f"{self.name!r} cannot name a directory in {RUN_BASE}; choose another lab name")
        check_tools(_TOOLS, "apt-get install iproute2 ethtool mininet iputils-ping procps")
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed = True
        self._stack.close()

    def _build(self) -> None:
        if self._private:
            outside = self._stack.enter_context(private_network())
            if any(ROOT_END in target for target in self.controllers):
                self.management = join_to_root(self.name, outside)
                root = self.management.root_address
                self.controllers = tuple(target.replace(ROOT_END, root) for target in self.controllers)
        self._progress("starting a private Open vSwitch")
        self.ovs = self._stack.enter_context(PrivateOvs(self.directory))
        self._progress(f"starting {len({host.name for host in self.plan.hosts})} hosts")
        self.net = make_nodes(self.plan)
        self._stack.callback(end_nodes, self.net)
        make_cables(self.net, self.plan, self.mtu, self._relays)
        configure_hosts(self.net, self.plan)
        self._progress(f"making {len(self.plan.switches)} switches")
        add_bridges(self.ovs, self.plan)
        # Rates come before controllers, which may start to discover and measure at once.
        self._lay_queues()
        if self.controllers:
            set_controllers(self.ovs, self.plan, self.controllers)
        hosts = tuple(
            LabHost(h.label, self.pid_of(h.name), h.ipv4, h.mac, h.rate_bps, h.switch) for h in self.plan.hosts
        )
        write_record(self.directory, LabRecord(self.name, self.ovs.switch_pid, self.controllers, hosts))

    def _lay_queues(self) -> None:
        lay_rates(self.ovs, self.plan, self._settings)
        # The daemon opens its sending socket with the first frame it sends.
        send_one_frame(self.ovs, self.plan)
        self.queue_packets = QUEUE_PACKETS if self.ovs.widen_buffers() else _QUEUE_PACKETS_IN_SHARED_BUFFER
        mapping = ClassMap.of(self._settings, self.queue_packets, BURST_FRAMES * (self.mtu + 14))
        self._filters = FilterKeeper(self.switch_interfaces(), mapping)
        self._filters.start()
        self._stack.callback(self._filters.stop)

    # --- looking up ------------------------------------------------------------------------------------

    def switch_interfaces(self) -> list[str]:
        """Names of all switch ports, which are also their kernel interfaces."""
        return [interface_name(name, port) for name, ports in switch_ports(self.plan).items() for port in ports]

    def uplink_interfaces(self) -> list[str]:
        """Names of the ports between switches, both ends of every cable: where flows can collide."""
        return [name for link in self.plan.links for name in _ends(link)]

    def pid_of(self, host: str) -> int:
        """A process in the host's namespace: `mnexec -a PID command` runs there, `inside(pid, action)` as well."""
        return int(self.net[self.host(host).name].pid)

    def address_of(self, host: str) -> str:
        """IPv4 in text."""
        return self.host(host).ipv4

    def rate_of(self, host: str) -> int:
        """Bit/s of the host's interface."""
        return self.host(host).rate_bps

    def host(self, name: str) -> PlannedHost:
        """Raises LabError for a name that the plan does not have."""
        if name not in self._hosts:
            raise LabError(f"no host {name!r} in {self.plan.name!r}; it has {', '.join(self._interfaces)}")
        return self._hosts[name]

    # --- verbs -----------------------------------------------------------------------------------------

    def wait_connected(self, timeout_s: float = 30.0) -> None:
        """Returns when every switch has a controller; raises LabError that names those without one."""
        wanted = {s.name for s in self.plan.switches}
        deadline = time.monotonic() + timeout_s
        while missing := wanted - connected_switches(self.ovs):
            if time.monotonic() > deadline:
                raise LabError(
                    f"no controller after {timeout_s:.0f} s on {', '.join(sorted(missing))}; "
                    f"is one listening at {', '.join(self.controllers) or '(no target was given)'}?"
                )
            time.sleep(0.1)

    def announce_hosts(self, times: int = 3, gap_s: float = 0.3) -> None:
        """Every host sends gratuitous ARP, so that the controller knows where it is."""
        lab_hosts.announce(self.plan.hosts, self.pid_of, times, gap_s)

    def teach_neighbours(self) -> None:
        """Permanent neighbour entries at every host, for a fabric in which nobody answers ARP."""
        lab_hosts.teach_neighbours(self.plan.hosts, self.pid_of)

    def ping_pairs(
        self, pairs: Iterable[tuple[str, str]] | None = None, timeout_s: float = 2.0
    ) -> dict[tuple[str, str], float | None]:
        """Round-trip time in ms per (from, to), None where no answer came. Default: each host to the next one."""
        names = list(self._interfaces)
        chosen = list(pairs) if pairs is not None else list(zip(names, names[1:] + names[:1], strict=True))
        return lab_hosts.ping_pairs(chosen, self.address_of, self.pid_of, timeout_s)

    def cables(self, a: str, b: str) -> list[PlannedLink]:
        """All cables between two switches, in the plan's order. Raises LabError when there is none."""
        found = [link for link in self.plan.links if {link.a, link.b} == {a, b}]
        if not found:
            raise LabError(f"no cable between {a!r} and {b!r} in {self.plan.name!r}")
        return found

    def cut_link(self, a: str, b: str, index: int = 0) -> None:
        """Takes the `index`-th cable between two switches down at `a`'s end; both switches see their port go down."""
        self._set_link(a, b, index, "down")

    def restore_link(self, a: str, b: str, index: int = 0) -> None:
        self._set_link(a, b, index, "up")

    def impair(self, a: str, b: str, share: float, *, sender: str | None = None, index: int = 0) -> None:
        """That share of the frames on a relayed cable get lost, with the carrier up: of those that switch `sender`
        sends, or of all. 1.0 is a silent failure, 0.0 mends it."""
        link = self._cable(a, b, index)
        if link not in self._relays:
            raise LabError(f"the cable between {a} and {b} has no relay; name it in `relayed` when the lab is made")
        near = None if sender is None else _ends(link)[0 if sender == link.a else 1]
        self._relays[link].lose(share, near)

    def _cable(self, a: str, b: str, index: int) -> PlannedLink:
        cables = self.cables(a, b)
        if not 0 <= index < len(cables):
            raise LabError(f"{a} and {b} have {len(cables)} cables; there is no number {index}")
        return cables[index]

    def _set_link(self, a: str, b: str, index: int, state: str) -> None:
        link = self._cable(a, b, index)
        port = link.a_port if link.a == a else link.b_port
        run(["ip", "link", "set", "dev", interface_name(a, port), state])

    def classify(self, *, on: bool = True) -> None:
        """Switches the effect of traffic classes on or off on every switch port, for a comparison."""
        self._filters.classify(on=on)

    def ensure_filters(self) -> int:
        """Lays missing queue filters now, without waiting for the keeper; returns how many changes that took."""
        return self._filters.ensure()

    def trace(self, switch: str, in_port: int, flow: str) -> str:
        """Open vSwitch's own explanation of what it does with a packet ("udp,nw_src=10.0.0.1,tp_dst=4791")."""
        return self.ovs.appctl("ofproto/trace", switch, f"in_port={in_port},{flow}")

    def counters(self) -> dict[str, PortCounters]:
        """Bytes and packets of every switch port since it was made."""
        wanted = set(self.switch_interfaces())
        return {name: c for name, c in read_counters().items() if name in wanted}

    def cpu(self) -> CpuReading:
        """Processor time so far, of the machine and of the switch daemon (by `ovs.switch_pid`)."""
        return read_cpu([self.ovs.switch_pid])


def _ends(link: PlannedLink) -> tuple[str, str]:
    return interface_name(link.a, link.a_port), interface_name(link.b, link.b_port)
