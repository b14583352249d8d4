"""What the core shows to people and machines: topology, plans, and the reasons for a path.

Pure functions of the core; the dataclasses have the field names of the messages in proto/heddle/v1.
"""

from controller.core.views.common import EndpointView, HopView, UnknownFlow, UnknownHost, UnknownJob, certificate
from controller.core.views.flows import CandidateView, ExplainedFlowView, explain_flow
from controller.core.views.plans import PlannedFlowView, PlanView, plans
from controller.core.views.topology import HostView, LinkView, SwitchView, TopologyView, topology

__all__ = [
    "CandidateView",
    "EndpointView",
    "ExplainedFlowView",
    "HopView",
    "HostView",
    "LinkView",
    "PlanView",
    "PlannedFlowView",
    "SwitchView",
    "TopologyView",
    "UnknownFlow",
    "UnknownHost",
    "UnknownJob",
    "certificate",
    "explain_flow",
    "plans",
    "topology",
]
