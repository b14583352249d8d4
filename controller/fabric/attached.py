"""The hosts of a view by every spelling: name, address, alias, and whatever else `names` understands.

It decides which of several interfaces of one name is meant: that of the address that was given, else the first.
"""

from dataclasses import dataclass

from controller.fabric.model import FabricView, Host
from controller.fabric.names import Names, resolver


@dataclass(frozen=True, slots=True)
class AttachedHosts:
    """The hosts of one view, by every spelling."""

    view: FabricView
    names: Names
    by_name: dict[str, Host]
    by_address: dict[str, Host]
    # Of hosts with several interfaces that the plan counts: in the order of their numbers.
    nics_of: dict[str, tuple[Host, ...]]

    @classmethod
    def of(cls, view: FabricView) -> "AttachedHosts":
        addresses: dict[str, list[str]] = {}
        for host in view.hosts:
            addresses.setdefault(host.name, []).extend(host.addresses)
        in_order = sorted(view.hosts, key=lambda host: host.nic)
        by_name = {host.name: host for host in reversed(in_order)}
        by_address = {address: host for host in view.hosts for address in host.addresses}
        nics: dict[str, list[Host]] = {}
        for host in in_order:
            if host.nic and not host.server:
                nics.setdefault(host.name, []).append(host)
        of_name = {name: tuple(found) for name, found in nics.items()}
        return cls(view, resolver(addresses, view.aliases), by_name, by_address, of_name)

    def find(self, text: str) -> tuple[Host | None, str]:
        """The host, or None and a sentence that says why not."""
        if (host := self.by_name.get(text) or self.by_address.get(text)) is not None:
            return host, ""
        found = self.names.find(text)
        if found.name is not None:
            return self.by_name[found.name], ""
        interface = self.find_interface(text)
        return interface if interface is not None else (None, found.why)

    def means_interface(self, text: str) -> bool:
        """Whether a text that was found names one interface of a host, and not the host."""
        return text in self.by_address or self.names.find(text).name is None

    def find_interface(self, text: str) -> tuple[Host | None, str] | None:
        """As `find`, of "h1:2", the second interface of h1; None for a text of another form."""
        server, colon, number = text.rpartition(":")
        name = self.names.find(server).name if colon and number.isdecimal() else None
        return None if name is None or name not in self.nics_of else self.interface(name, int(number))

    def interface(self, name: str, number: int) -> tuple[Host | None, str]:
        """The interface of a host in `nics_of`, or None and why not."""
        for host in self.nics_of[name]:
            if host.nic == number:
                return host, ""
        known = ", ".join(str(host.nic) for host in self.nics_of[name])
        return None, f"{name}'s NIC {number} is not seen on this fabric; those seen: {known}"
