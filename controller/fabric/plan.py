"""The fabric that was meant: what a topology file says, free of the file's form.

`controller.formats.topology_file` reads it from YAML; `mininet/` builds it; the controller takes names, rates and
expected hosts from it. Rates are bit/s.
"""

from dataclasses import dataclass

from controller.fabric.model import Role, nic_label


@dataclass(frozen=True, slots=True)
class PlannedSwitch:
    name: str
    dpid: int
    role: Role
    # Empty where the file names no pods.
    pod: str = ""


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """A cable between two switches: (switch name, port number) at each end."""

    a: str
    a_port: int
    b: str
    b_port: int
    rate_bps: int


@dataclass(frozen=True, slots=True)
class PlannedHost:
    """A host interface: its switch, the switch's port number, and its addresses ("10.0.1.1", no mask).

    `nic` counts the interfaces of one host from 1, in the order of rails; 0 where it has no other.
    """

    name: str
    switch: str
    port: int
    mac: str
    ipv4: str
    prefix_length: int
    rate_bps: int
    nic: int = 0

    @property
    def label(self) -> str:
        """Unlike the name, no other interface's."""
        return nic_label(self.name, self.nic)


@dataclass(frozen=True, slots=True)
class FabricPlan:
    name: str
    switches: tuple[PlannedSwitch, ...]
    links: tuple[PlannedLink, ...]
    hosts: tuple[PlannedHost, ...]
    # (another spelling, the host's name), sorted.
    aliases: tuple[tuple[str, str], ...] = ()
    # Path MTU of RoCE queue pairs in bytes; None where the file does not say.
    roce_mtu_bytes: int | None = None
