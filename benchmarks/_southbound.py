"""Heddle's Ryu agent alone: this process plays the controller for it and has rules written that are computed already.

What is measured is the agent and Open vSwitch, from the first byte of the batches to the last result.
"""

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from _patch_fabric import ROOT, connect
from _processes import program, ryu_manager
from heddle.southbound.framing import FrameReader, frame
from heddle.southbound.v1 import link_pb2 as pb

from controller.core.reconcile import MOST_WITHOUT_BUNDLE
from controller.fabric.plan import FabricPlan
from controller.pipeline.groups import failover_group
from controller.pipeline.rules import AddGroup, AddRule, Barrier, DeleteGroup, DeleteRule, Modification, Rule, ToGroup
from controller.pipeline.steering import steer_match
from controller.runtime.wire_rules import write_modification

_PATIENCE_S = 60.0


class Peer:
    """The controller's end of the link."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(_PATIENCE_S)
        self._connection = connection
        self._reader = FrameReader()

    def send(self, payloads: Iterable[bytes]) -> None:
        self._connection.sendall(b"".join(map(frame, payloads)))

    def collect(self, kind: str, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            for payload in self._reader.feed(self._connection.recv(1 << 16)):
                message = pb.AgentMessage.FromString(payload)
                if message.WhichOneof("body") == kind:
                    found.append(getattr(message, kind))
        return found


def agent_seconds(
    ovs: Any, plan: FabricPlan, tables: dict[int, Any], folder: Path, repeat: int
) -> dict[int, list[float]]:
    """Seconds of each round by number of flows."""
    path = folder / "agent.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        environment = {"HEDDLE_SOUTHBOUND": f"unix:{path}"}
        command = ryu_manager(str(ROOT / "apps" / "fabric.py"))
        with program(command, environment, folder / "agent.log"):
            peer = Peer(listener.accept()[0])
            connect(ovs, plan)
            sessions = {up.dpid: up.session_id for up in peer.collect("switch_up", len(plan.switches))}
            return {
                flows: [_round(peer, sessions, {int(d): t for d, t in wanted.items()}) for _ in range(repeat)]
                for flows, wanted in tables.items()
            }


def _round(peer: Peer, sessions: dict[int, str], tables: dict[int, Any]) -> float:
    added = [_payload(dpid, sessions[dpid], _additions(wanted)) for dpid, wanted in tables.items()]
    started_s = time.perf_counter()
    peer.send(added)
    results = peer.collect("batch_result", len(added))
    seconds = time.perf_counter() - started_s
    peer.send(_payload(dpid, sessions[dpid], _removals(wanted)) for dpid, wanted in tables.items())
    results += peer.collect("batch_result", len(added))
    if any(result.status != pb.BatchResult.STATUS_DONE for result in results):
        raise SystemExit("a switch refused what the agent sent it")
    return seconds


def _payload(dpid: int, session_id: str, changes: Iterable[Modification]) -> bytes:
    written = list(map(write_modification, changes))
    # As the core decides about what is added.
    atomic = len(written) > MOST_WITHOUT_BUNDLE
    batch = pb.Batch(dpid=dpid, session_id=session_id, batch_id=dpid, modifications=written, atomic=atomic)
    return pb.ControllerMessage(batch=batch).SerializeToString()


def _additions(wanted: dict[str, Any]) -> list[Modification]:
    groups = [AddGroup(failover_group(group["group_id"], group["ports"])) for group in wanted["groups"]]
    return [*groups, Barrier(), *(AddRule(_rule(rule)) for rule in wanted["rules"])]


def _removals(wanted: dict[str, Any]) -> list[Modification]:
    rules = [DeleteRule(_rule(rule)) for rule in wanted["rules"]]
    return [*rules, Barrier(), *(DeleteGroup(group["group_id"]) for group in wanted["groups"])]


def _rule(rule: dict[str, Any]) -> Rule:
    match = rule["match"]
    matched = steer_match((match["ipv4_src"], match["ipv4_dst"], match.get("udp_src", 0)))
    return Rule(rule["table_id"], rule["priority"], matched, rule["cookie"], (ToGroup(rule["group_id"]),))
