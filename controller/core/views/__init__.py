"""What the core shows to people and machines: topology, plans, and the reasons for a path.

Pure functions of the core; the dataclasses have the field names of the messages in proto/heddle/v1.
"""

from controller.core.views.common import (
    EndpointView,
    HopView,
    UnknownHost,
    UnknownJob,
    UnknownLink,
    UnknownSwitch,
    certificate,
)
from controller.core.views.flows import CandidateView, ExplainedFlowView, FlowExplanationView, explain_flow
from controller.core.views.plans import PlannedFlowView, PlanView, plans
from controller.core.views.topology import HostView, LinkView, SwitchView, TopologyView, topology
from controller.core.views.trace import PacketTraceView

__all__ = [
    "CandidateView",
    "EndpointView",
    "ExplainedFlowView",
    "FlowExplanationView",
    "HopView",
    "HostView",
    "LinkView",
    "PacketTraceView",
    "PlanView",
    "PlannedFlowView",
    "SwitchView",
    "TopologyView",
    "UnknownHost",
    "UnknownJob",
    "UnknownLink",
    "UnknownSwitch",
    "certificate",
    "explain_flow",
    "plans",
    "topology",
]
