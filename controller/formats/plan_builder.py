"""What every reader of a cabling plan needs: collect nodes and cables with their lines, and judge the whole.

It decides on faults that no single line shows (one port for two cables, a name that is a switch and a host) and on
limits. How a format spells things is each reader's own; what was only odd becomes a remark on the plan.
"""

from collections.abc import Mapping

from controller.fabric.cabling import Cable, CabledSwitch, CableEnd, CablingPlan
from controller.fabric.host_lists import HostListError, expand
from controller.fabric.model import Role
from controller.fabric.port_names import PortKey, key
from controller.formats.problems import FileFormatError, FileProblem

MAX_NODES = 200_000
MAX_CABLES = 1_000_000
_MAX_NAME = 255
_MAX_REMARKS = 1_000


class PlanFileError(FileFormatError):
    """The file cannot be used as a cabling plan; `problems` says why, with lines and cures."""


class PlanBuilder:
    """`problems` end in PlanFileError when the plan is asked for; `remark`s do not."""

    def __init__(self, filename: str, source: str, *, cables_counted: bool = True) -> None:
        self.filename = filename
        self.problems: list[FileProblem] = []
        self._source = source
        self._cables_counted = cables_counted
        self._remarks: dict[str, None] = {}
        self._switches: dict[str, CabledSwitch] = {}
        self._hosts: dict[str, int] = {}
        self._lines: dict[str, int] = {}
        self._cables: list[Cable] = []
        self._ports: dict[tuple[str, PortKey], tuple[str, int]] = {}
        self._blocks: dict[str, tuple[str, ...]] = {}

    # --- what is wrong or odd --------------------------------------------------------------------------

    def problem(self, line: int, what: str, cure: str) -> None:
        self.problems.append(FileProblem(self.filename, line, what, cure))

    def remark(self, line: int, what: str) -> None:
        if len(self._remarks) < _MAX_REMARKS:
            place = f"{self.filename}:{line}" if line else self.filename
            self._remarks[f"{place}: {what}"] = None

    def _name_is_sound(self, name: str, line: int) -> bool:
        if 0 < len(name) <= _MAX_NAME and name.isprintable() and name == name.strip():
            return True
        shown = name if len(name) <= 40 else name[:37] + "..."
        self.problem(line, f'"{shown}" is no name of a switch, host or port', "use 1 to 255 printable characters")
        return False

    # --- nodes -----------------------------------------------------------------------------------------

    def switch(
        self, name: str, line: int, *, role: Role = Role.UNKNOWN, level: int | None = None, alias: str = ""
    ) -> None:
        """Naming a switch again adds what was not known of it."""
        if name in self._hosts:
            what = f'"{name}" is a switch here and a host on line {self._hosts[name]}'
            self.problem(line, what, "rename one of the two")
        elif name in self._switches or (self._name_is_sound(name, line) and self._has_room(line)):
            old = self._switches.get(name, CabledSwitch(name))
            known_role = role if role is not Role.UNKNOWN else old.role
            known_level = old.level if level is None else level
            self._switches[name] = CabledSwitch(name, known_role, old.dpid, known_level, alias or old.alias)
            self._lines.setdefault(name, line)

    def host(self, name: str, line: int) -> None:
        if name in self._switches:
            what = f'"{name}" is a host here and a switch on line {self._lines[name]}'
            self.problem(line, what, "rename one of the two")
        elif name not in self._hosts and self._name_is_sound(name, line) and self._has_room(line):
            self._hosts[name] = line

    def _has_room(self, line: int) -> bool:
        if len(self._switches) + len(self._hosts) < MAX_NODES:
            return True
        if not any(problem.cure == _SPLIT for problem in self.problems):
            self.problem(line, f"more than {MAX_NODES} switches and hosts", _SPLIT)
        return False

    def hosts_of(self, expression: str, line: int) -> tuple[str, ...]:
        """The names in a host-list expression; none, and a problem, when it is wrong."""
        try:
            return expand(expression, MAX_NODES)
        except HostListError as error:
            self.problem(line, error.what, error.cure)
            return ()

    def block(self, name: str, hosts: tuple[str, ...], line: int) -> None:
        for host in hosts:
            self.host(host, line)
        self._blocks[name] = self._blocks.get(name, ()) + hosts

    # --- cables ----------------------------------------------------------------------------------------

    def cable(self, a: CableEnd, b: CableEnd, line: int, rate_bps: int | None = None) -> None:
        """Between nodes that were named, or are switches from now on."""
        for end in (a, b):
            if end.node not in self._hosts and end.node not in self._switches:
                self.switch(end.node, line)
            if end.port and not self._name_is_sound(end.port, line):
                return
        if a == b:
            self.problem(line, f"a cable from {a} to itself", "name two different ports")
            return
        if len(self._cables) >= MAX_CABLES:
            if len(self._cables) == MAX_CABLES and not any(p.cure == _SPLIT for p in self.problems):
                self.problem(line, f"more than {MAX_CABLES} cables", _SPLIT)
            return
        if a.node == b.node:
            self.remark(line, f"a cable from {a.node} to itself ({a.port} to {b.port})")
        for near, far in ((a, b), (b, a)):
            self._take_port(near, far, line)
        self._cables.append(Cable(a, b, rate_bps, f"{self.filename}:{line}"))

    def _take_port(self, end: CableEnd, far: CableEnd, line: int) -> None:
        if not end.port:
            return
        port = (end.node, key(end.port, end.node))
        if port in self._ports:
            user, first = self._ports[port]
            what = f"port {end} is used by {user} (line {first}) and by the cable to {far}"
            self.problem(line, what, "a port takes one cable: correct one of the two")
        else:
            self._ports[port] = (f"the cable to {far}", line)

    # --- the whole -------------------------------------------------------------------------------------

    def levels_from(self, children: Mapping[str, tuple[str, ...]], lines: Mapping[str, int]) -> None:
        """Gives every switch of a tree its height over the lowest; a loop is a problem. `children` are switches."""
        heights: dict[str, int] = {}
        for root in children:
            if root not in heights and (loop := _measure(root, children, heights)):
                what = f"switches in a circle: {' > '.join(loop[:10])}"
                self.problem(lines.get(loop[0], 0), what, "a switch cannot be below itself: remove one of these")
                return
        for name, height in heights.items():
            self.switch(name, lines.get(name, 0), level=height)

    def plan(self, name: str) -> CablingPlan:
        """Raises PlanFileError with every problem; also when the file says nothing at all about a fabric."""
        if not self.problems and not self._switches and not self._hosts:
            self.problem(0, "names no switch and no host", "is this the right file?")
        if self.problems:
            raise PlanFileError(self.problems)
        return CablingPlan(
            name,
            self._source,
            tuple(self._switches.values()),
            tuple(self._hosts),
            tuple(self._cables),
            self._cables_counted,
            self._blocks,
            tuple(self._remarks),
        )


_SPLIT = "describe one fabric per file"


def _measure(root: str, children: Mapping[str, tuple[str, ...]], heights: dict[str, int]) -> list[str]:
    """Depth first without recursion, since a file decides how deep. Returns a loop, or nothing."""
    path: list[str] = []
    on_path: set[str] = set()
    stack = [(root, False)]
    while stack:
        name, leaving = stack.pop()
        if leaving:
            path.pop()
            on_path.discard(name)
            heights[name] = 1 + max((heights[child] for child in children.get(name, ())), default=-1)
        elif name in on_path:
            return [*path[path.index(name) :], name]
        elif name not in heights:
            path.append(name)
            on_path.add(name)
            stack.append((name, True))
            stack += [(child, False) for child in children.get(name, ())]
    return []
