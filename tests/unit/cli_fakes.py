"""A controller for the tests of the `heddle` command: the real gRPC services over loopback, with made-up answers.

The fabric is two leaves and two spines with one job on it; whatever a test wants different, it sets on the fake.
"""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status
from heddle.v1 import collective_pb2, collective_pb2_grpc, fabric_pb2, fabric_pb2_grpc, trace_pb2

RATE_BPS = 100_000_000_000
LARGE_DPID = 0xFFFF_FFFF_FFFF_FF01  # Needs all 64 bits: doubles and signed numbers lose it.


def switch(name: str, dpid: int, role: str) -> fabric_pb2.Switch:
    return fabric_pb2.Switch(
        dpid=dpid,
        name=name,
        role=role,
        connected=True,
        in_sync=True,
        rules=24,
        groups=6,
        peer_address="127.0.0.1:40000",
    )


def endpoint(name: str, port: int, dpid: int = 1) -> fabric_pb2.Endpoint:
    return fabric_pb2.Endpoint(switch=name, dpid=dpid, port_no=port, port_name=f"{name}-eth{port}")


def topology(leaves: int = 2, spines: int = 2) -> fabric_pb2.GetTopologyResponse:
    """Every leaf to every spine, two hosts a leaf; the first link is loaded, the last one has unknown rates."""
    answer = fabric_pb2.GetTopologyResponse(revision=7, in_sync=True)
    for number in range(1, leaves + 1):
        answer.switches.append(switch(f"leaf{number}", 0x100 + number, "leaf"))
        for host in (1, 2):
            port = endpoint(f"leaf{number}", spines + host, 0x100 + number)
            address = f"10.0.{number}.{host}"
            mac = f"02:00:0a:00:{number:02x}:{host:02x}"
            name = f"h{number}_{host}"
            answer.hosts.append(
                fabric_pb2.Host(name=name, mac=mac, addresses=[address], port=port, capacity_bps=RATE_BPS)
            )
    for number in range(1, spines + 1):
        answer.switches.append(switch(f"spine{number}", 0x200 + number, "spine"))
    for leaf in range(1, leaves + 1):
        for spine in range(1, spines + 1):
            ends = {"a": endpoint(f"leaf{leaf}", spine), "b": endpoint(f"spine{spine}", leaf)}
            link = fabric_pb2.Link(**ends, state="up", capacity_bps=RATE_BPS, a_to_b_bps=1e9 * leaf, b_to_a_bps=0.0)
            answer.links.append(link)
    answer.links[0].a_to_b_bps = 0.925 * RATE_BPS
    answer.links[0].a_to_b_flows = 2
    answer.links[-1].ClearField("a_to_b_bps")
    answer.links[-1].ClearField("b_to_a_bps")
    answer.switches[0].dpid = LARGE_DPID
    return answer


def certificate() -> collective_pb2.Certificate:
    return collective_pb2.Certificate(
        max_load_s=0.0129,
        lower_bound_s=0.0129,
        gap=0.0,
        method="edge-colouring",
        proven_optimal=True,
        completion_bound_s=0.0258,
    )


def path(src_leaf: int, dst_leaf: int, spine: int) -> list[collective_pb2.Hop]:
    up = collective_pb2.Hop(switch=f"leaf{src_leaf}", dpid=src_leaf, port_no=spine, to=f"spine{spine}")
    down = collective_pb2.Hop(switch=f"spine{spine}", dpid=0x200 + spine, port_no=dst_leaf, to=f"leaf{dst_leaf}")
    return [up, down]


def flow(number: int, job: str = "llama", state: str = "planned") -> collective_pb2.PlannedFlow:
    """Flow `number` goes from rank `number` on leaf 1 to rank `number + 1` on leaf 2 by spine 1 or 2."""
    return collective_pb2.PlannedFlow(
        flow_id=f"{job}/{number}-{number + 1}:49152",
        src_host="h1_1",
        dst_host="h2_1",
        src_address="10.0.1.1",
        dst_address="10.0.2.1",
        size_bytes=38_654_705_664,
        queue_pairs=4,
        udp_source_port=49152,
        path=path(1, 2, number % 2 + 1) if state == "planned" else [],
        state=state,
    )


def plan(job: str = "llama", flows: int = 2) -> collective_pb2.Plan:
    answer = collective_pb2.Plan(job_id=job, revision=7, certificate=certificate(), state="placed")
    answer.flows.extend(flow(number, job) for number in range(flows))
    answer.notes.append("3 of 4 queue pairs share a 5-tuple: give each its own UDP source port to steer it alone")
    return answer


def explained() -> collective_pb2.ExplainedFlow:
    answer = collective_pb2.ExplainedFlow(flow=flow(0), job_id="llama", certificate=certificate())
    answer.reason = "Its fullest link needs 0.0129 s on spine1 and 0.0258 s on spine2."
    for spine, without, chosen in ((1, 0.0, True), (2, 0.0129, False)):
        candidate = answer.candidates.add(path=path(1, 2, spine), load_without_s=without, chosen=chosen)
        candidate.load_with_s = without + 0.0129
        candidate.background_bps = 2.5e9
    return answer


def traced_rule(kind: str, match: str, *actions: str, goes_on: str = "", **more: Any) -> trace_pb2.TracedRule:
    return trace_pb2.TracedRule(kind=kind, match=match, actions=actions, next_table=goes_on, **more)


def trace(spines: int = 1) -> trace_pb2.PacketTrace:
    """From h1_1 by leaf 1 and some spine, which a hash chooses when there are several, to h2_1 on leaf 2."""
    answer = trace_pb2.PacketTrace(
        packet="RoCEv2 over IPv4 from 10.0.1.1 to 10.0.2.1, UDP source port 49152, DSCP 0",
        udp_source_port=49152,
        src_host="h1_1",
        dst_host="h2_1",
    )
    classify = trace_pb2.TracedTable(table_id=1, table="classify")
    classify.rule.CopyFrom(
        traced_rule("classify", "RoCEv2 over IPv4", "DSCP 26", "queue 1", goes_on="steer", priority=200)
    )
    first = answer.switches.add(switch="leaf1", dpid=LARGE_DPID, in_port=3, sender="h1_1", tables=[classify])
    if spines == 1:
        steer = first.tables.add(table_id=2, table="steer")
        steer.rule.CopyFrom(traced_rule("steer", "RoCEv2 to 10.0.2.1", "group 0x10", priority=100, job_id="llama"))
        choice = steer.choices.add(kind="fast_failover", group_id=0x10)
        choice.members.add(action="to port 1 (spine1)", live=False)
        choice.members.add(action="to port 2 (spine2)", live=True, taken=True)
        choice.members.add(action="to port 4 (spine4)", live=True)
    else:
        choice = first.tables[0].choices.add(kind="bundle", by_hash=True)
    for spine in range(1, spines + 1):
        if spines > 1:
            choice.members.add(action=f"to port {spine} (spine{spine})", live=True, taken=True, weight=1)
        marks: dict[str, Any] = {"queue_id": 1, "dscp": 26, "by_hash": spines > 1}
        first.outputs.add(port_no=spine, to=f"spine{spine}", **marks)
        onward = answer.switches.add(switch=f"spine{spine}", in_port=1, sender="leaf1", by_hash=spines > 1)
        onward.tables.add(table="route").rule.CopyFrom(traced_rule("route", "IPv4 to 10.0.2.1", "to port 2 (leaf2)"))
        onward.outputs.add(port_no=2, to="leaf2")
        answer.ends.add(kind="host", switch="leaf2", port_no=3, host="h2_1")
    return answer


def diff(*, equal: bool = True) -> fabric_pb2.GetDiffResponse:
    """Leaf 1 is equal; unless all is, leaf 2 differs in every way and spine 1 is away."""
    answer = fabric_pb2.GetDiffResponse(equal=equal)
    answer.switches.add(switch="leaf1", dpid=LARGE_DPID, state="equal", equal_rules=24, equal_groups=6)
    if equal:
        return answer
    answer.switches.add(switch="spine1", state="unknown", reason="the switch is not connected")
    wrong = answer.switches.add(switch="leaf2", state="different", equal_rules=20, equal_groups=5)
    rule = {"what": "rule", "table": "route"}
    wrong.differences.add(kind="missing", **rule, desired="priority 300, IPv4 to 10.0.2.1: to port 3 (h2_1)")
    steer = {"what": "rule", "table": "steer", "rule_kind": "steer", "job_id": "llama"}
    wrong.differences.add(kind="different", **steer, desired="priority 100: group 0x1", actual="priority 100: drop")
    wrong.differences.add(kind="superfluous", what="group", actual="group 0x2, select: no buckets")
    wrong.differences.add(kind="foreign", **rule, actual="priority 1, every packet: drop, cookie 0xbeef")
    wrong.differences.add(kind="foreign", **rule, actual="priority 2, every packet: drop, cookie 0xbeef")
    return answer


def bound(cut: str = "what leaves leaf1 over 2 uplinks") -> collective_pb2.Bound:
    return collective_pb2.Bound(cut=cut, bound_s=0.0129, links=2, flows=4, size_bytes=1 << 30)


def explained_link(flows: int = 2) -> fabric_pb2.ExplainLinkResponse:
    """Leaf 1 to spine 1 with `flows` flows, and the way back, about which little is known."""
    answer = fabric_pb2.ExplainLinkResponse(certificate=certificate())
    up = answer.directions.add(sender=endpoint("leaf1", 1), receiver=endpoint("spine1", 2), state="up", load_s=0.0129)
    up.capacity_bps, up.measured_bps, up.background_bps, up.left_bps = RATE_BPS, 9e10, 2e10, 8e10
    up.bound.CopyFrom(bound())
    for number in range(flows):
        ends = {"src_host": "h1_1", "dst_host": f"h2_{number}", "size_bytes": 1 << 29, "load_s": 0.00645}
        up.flows.add(flow_id=f"llama/{number}-{number + 1}", job_id="llama", **ends)
    answer.directions.add(sender=endpoint("spine1", 2), receiver=endpoint("leaf1", 1), state="down")
    return answer


def explained_job(unplaced: int = 1) -> collective_pb2.ExplainJobResponse:
    answer = collective_pb2.ExplainJobResponse(job_id="llama", certificate=certificate(), planned_flows=3)
    full = answer.fullest.add(load_s=0.0129, job_load_s=0.00645, flows=2, job_flows=1)
    full.port.CopyFrom(path(1, 2, 1)[0])
    answer.bounds.extend([bound(), bound("what enters leaf2 over 2 downlinks")])
    answer.sentences.append("No placement needs less than 0.0129 s.")
    for number in range(unplaced):
        answer.unplaced.add(flow=flow(number, state="ecmp"), reason="leaf1 has no room for its rule")
    return answer


@dataclass
class Fake(collective_pb2_grpc.CollectiveServiceServicer, fabric_pb2_grpc.FabricServiceServicer):
    """`refusal` (status code, problems) makes every call fail; `requests` holds all that came."""

    address: str = ""
    topology: fabric_pb2.GetTopologyResponse = field(default_factory=topology)
    plans: dict[str, collective_pb2.Plan] = field(default_factory=lambda: {"llama": plan()})
    explained: list[collective_pb2.ExplainedFlow] = field(default_factory=lambda: [explained()])
    trace: trace_pb2.PacketTrace = field(default_factory=trace)
    diff: fabric_pb2.GetDiffResponse = field(default_factory=diff)
    link: fabric_pb2.ExplainLinkResponse = field(default_factory=explained_link)
    job: collective_pb2.ExplainJobResponse = field(default_factory=explained_job)
    refusal: tuple[grpc.StatusCode, list[str]] | None = None
    rich: bool = False
    rules_changed: int = 12
    requests: list[Any] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None

    def _received(self, request: Any, context: grpc.ServicerContext) -> None:
        self.requests.append(request)
        if self.refusal is None:
            return
        code, problems = self.refusal
        if not self.rich:
            context.abort(code, "\n".join(problems))
        violations = []
        for problem in problems:
            name, _, description = problem.partition(": ")
            violations.append(error_details_pb2.BadRequest.FieldViolation(field=name, description=description))
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.BadRequest(field_violations=violations))
        status = status_pb2.Status(code=code.value[0], message="the request is wrong", details=[packed])
        context.abort_with_status(rpc_status.to_status(status))

    def GetTopology(self, request: Any, context: grpc.ServicerContext) -> fabric_pb2.GetTopologyResponse:
        self._received(request, context)
        return self.topology

    def ExplainLink(self, request: Any, context: grpc.ServicerContext) -> fabric_pb2.ExplainLinkResponse:
        self._received(request, context)
        return self.link

    def ExplainJob(self, request: Any, context: grpc.ServicerContext) -> collective_pb2.ExplainJobResponse:
        self._received(request, context)
        return self.job

    def GetDiff(self, request: Any, context: grpc.ServicerContext) -> fabric_pb2.GetDiffResponse:
        self._received(request, context)
        return self.diff

    def AnnounceCollective(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._received(request, context)
        answer = self.plans.setdefault(request.collective.job_id, plan(request.collective.job_id))
        return collective_pb2.AnnounceCollectiveResponse(plan=answer, rules_changed=self.rules_changed)

    def WithdrawCollective(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._received(request, context)
        return collective_pb2.WithdrawCollectiveResponse(rules_changed=self.rules_changed)

    def GetPlan(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._received(request, context)
        chosen = [self.plans[request.job_id]] if request.job_id else list(self.plans.values())
        revision = max((p.revision for p in chosen), default=7)
        return collective_pb2.GetPlanResponse(plans=chosen, revision=revision)

    def ExplainFlow(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._received(request, context)
        return collective_pb2.ExplainFlowResponse(flows=self.explained, trace=self.trace)


@contextmanager
def serving(fake: Fake, address: str = "127.0.0.1:0") -> Iterator[Fake]:
    """The fake behind real gRPC on an ephemeral port; `fake.address` says where."""
    server = grpc.server(ThreadPoolExecutor(max_workers=4))
    collective_pb2_grpc.add_CollectiveServiceServicer_to_server(fake, server)
    fabric_pb2_grpc.add_FabricServiceServicer_to_server(fake, server)
    port = server.add_insecure_port(address)
    fake.address = f"127.0.0.1:{port}"
    fake.stop = lambda: server.stop(None).wait() and None
    server.start()
    try:
        yield fake
    finally:
        fake.stop()


def free_port() -> int:
    """A port nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
