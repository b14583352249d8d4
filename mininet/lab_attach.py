"""A running lab seen from another process: who its hosts are and how to get into them.

`lab.py` keeps the fabric up in one terminal; traffic and probes are started from another one, by the file that the lab
leaves in its directory. It is written once and read only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from lab_namespace import LabError
from lab_ovs import RUN_BASE

FILE_NAME = "lab.json"


@dataclass(frozen=True, slots=True)
class LabHost:
    """An interface of a host, by which name: "h1", or "h1:2" where it has several. `pid` is a process in the host's
    namespace."""

    name: str
    pid: int
    ipv4: str
    mac: str
    rate_bps: int
    switch: str


@dataclass(frozen=True, slots=True)
class LabRecord:
    """`namespace_pid` is a process in the namespace of the switches; `controllers` are their OpenFlow targets."""

    name: str
    namespace_pid: int
    controllers: tuple[str, ...]
    hosts: tuple[LabHost, ...]

    def pid_of(self, host: str) -> int:
        return self._host(host).pid

    def address_of(self, host: str) -> str:
        return self._host(host).ipv4

    def rate_of(self, host: str) -> int:
        return self._host(host).rate_bps

    def _host(self, name: str) -> LabHost:
        for host in self.hosts:
            if host.name == name:
                return host
        raise LabError(f"no host {name!r} in lab {self.name!r}; it has {', '.join(h.name for h in self.hosts)}")


def write_record(directory: Path, record: LabRecord) -> None:
    (directory / FILE_NAME).write_text(json.dumps(asdict(record), indent=1) + "\n")


def attach(name: str = "") -> LabRecord:
    """The running lab of this name, or the only one. Raises LabError when there is none, or a choice."""
    found = sorted(RUN_BASE.glob(f"{name or '*'}/{FILE_NAME}"))
    if len(found) != 1:
        running = ", ".join(path.parent.name for path in found) or "none"
        raise LabError(f"which lab? running: {running}; start one with `heddle fabric TOPOLOGY`")
    record = json.loads(found[0].read_text())
    hosts = tuple(LabHost(**host) for host in record.pop("hosts"))
    return LabRecord(**record | {"controllers": tuple(record["controllers"]), "hosts": hosts})
