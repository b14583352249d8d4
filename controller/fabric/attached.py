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

    @classmethod
    def of(cls, view: FabricView) -> "AttachedHosts":
        addresses: dict[str, list[str]] = {}
        for host in view.hosts:
            addresses.setdefault(host.name, []).extend(host.addresses)
        by_name = {host.name: host for host in reversed(view.hosts)}
        by_address = {address: host for host in view.hosts for address in host.addresses}
        return cls(view, resolver(addresses, view.aliases), by_name, by_address)

    def find(self, text: str) -> tuple[Host | None, str]:
        """The host, or None and a sentence that says why not."""
        if (host := self.by_name.get(text) or self.by_address.get(text)) is not None:
            return host, ""
        found = self.names.find(text)
        return (self.by_name[found.name], "") if found.name is not None else (None, found.why)
