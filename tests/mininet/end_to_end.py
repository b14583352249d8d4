"""A lab with the agent and the controller it starts, for tests of the whole product."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "mininet") not in sys.path:
    # Behind everything else, so that the real Mininet is never shadowed.
    sys.path.append(str(ROOT / "mininet"))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces and Open vSwitch")


@dataclass
class Product:
    """`lab` is a FabricLab, `controller` a client of its gRPC API."""

    lab: "FabricLab"  # type: ignore[name-defined] # noqa: F821 - importable only with the lab's folder on the path
    controller: "Controller"  # type: ignore[name-defined] # noqa: F821
    address: str
    log: Path

    def rules(self) -> dict[str, list[str]]:
        """What each switch holds, without counters and times."""
        return {
            s.name: self._dump(s.name, "dump-flows") + self._dump(s.name, "dump-groups") for s in self.lab.plan.switches
        }

    def _dump(self, switch: str, command: str) -> list[str]:
        said = self.lab.ovs.ofctl(command, switch).splitlines()[1:]
        volatile = ("duration=", "n_packets=", "n_bytes=", "idle_age=", "hard_age=")
        return sorted(", ".join(w for w in line.strip().split(", ") if not w.startswith(volatile)) for line in said)


@contextmanager
def product(topology: str | Path, logs: Path, relayed: Iterable[tuple[str, str]] = ()) -> Iterator[Product]:
    """Everything up, every link and host found. `topology` is a file, or the name of one in topologies/; the cables
    between `relayed` switches can be made to lose packets."""
    from demo_controllers import OPENFLOW, heddle
    from demo_northbound import Controller
    from lab_fabric import FabricLab

    from controller.formats.topology_file import load

    path = ROOT / "topologies" / topology
    plan = load(path)
    with (
        FabricLab(plan, controllers=[OPENFLOW], name=f"test-{plan.name}-{os.getpid()}", relayed=relayed) as lab,
        heddle(lab, path, logs) as address,
        Controller(address) as controller,
    ):
        lab.announce_hosts()
        controller.wait_for(len(plan.links), len(plan.hosts), timeout_s=60)
        yield Product(lab, controller, address, logs / "heddle.log")
