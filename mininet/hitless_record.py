"""What Open vSwitch itself says it was sent: every change of rules and groups, and every one that deletes wholesale.

Read from the switch daemon's own log of OpenFlow messages (`vlog/set vconn:dbg`), so that nothing of ours could leave
something out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lab_fabric import FabricLab

# The command may follow on a line of its own, and a change in a bundle stands in its envelope.
_CHANGE = re.compile(r"OFPT_(FLOW_MOD|GROUP_MOD|METER_MOD) \([^)]*\) \(xid=\w+\):\s+(\w+)([^\n]*)")
# The packet itself is written on the line below.
_PACKET_IN = re.compile(r"OFPT_PACKET_IN [^\n]*\n(\S+)")
_DISCOVERY = ("dl_type=0x88cc", "arp,")
_ERROR = re.compile(r"sent \(Success\): OFPT_ERROR [^\n]*")
# A strict delete names one rule, a plain one whatever it covers.
_STRICT_DELETE = "DEL_STRICT"
_SHOWN = 6
# OFPG_ALL and OFPM_ALL, as Open vSwitch writes them.
_ALL = ("group_id=4294967292", "group_id=all", "meter=all")


@dataclass(frozen=True, slots=True)
class Changes:
    """`commands` counts "message command"; `wholesale` are the messages that delete more than they name; `errors` are
    those that a switch answered with."""

    commands: dict[str, int]
    wholesale: tuple[str, ...]
    errors: tuple[str, ...] = ()
    # Packets that went to the controller, but for beacons and ARP.
    punted: tuple[str, ...] = ()
    # The first few messages, for whoever wonders about them.
    first: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return sum(self.commands.values())


class MessageRecord:
    """From when it is made; a lab has one at a time."""

    def __init__(self, lab: FabricLab) -> None:
        self._file: Path = lab.directory / "ovs-vswitchd.log"
        lab.ovs.appctl("vlog/disable-rate-limit", "vconn")
        lab.ovs.appctl("vlog/set", "vconn:file:dbg")
        self._position = self._file.stat().st_size

    def take(self) -> Changes:
        """What has come since the last call."""
        with open(self._file, errors="replace") as log:
            log.seek(self._position)
            text = log.read()
            self._position = log.tell()
        commands: Counter[str] = Counter()
        wholesale: list[str] = []
        first: list[str] = []
        for found in _CHANGE.finditer(text):
            message, command, rest = found.groups()
            commands[f"{message} {command}"] += 1
            said = " ".join(found[0].split())
            if len(first) < _SHOWN:
                first.append(said)
            if _is_wholesale(message, command, rest):
                wholesale.append(said)
        punted = tuple(p for p in _PACKET_IN.findall(text) if not any(word in p for word in _DISCOVERY))
        return Changes(dict(commands), tuple(wholesale), tuple(_ERROR.findall(text)), punted, tuple(first))


def _is_wholesale(message: str, command: str, rest: str) -> bool:
    if not command.startswith("DEL"):
        return False
    if message == "FLOW_MOD":
        return command != _STRICT_DELETE
    return any(everything in rest for everything in _ALL)
