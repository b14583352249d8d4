"""What the core shows to people and machines: topology, plans, and the reasons for a path.

Pure functions of the core; the dataclasses have the field names of the messages in proto/heddle/v1.
"""

from controller.core.views.cabling import CablingPlanView, cabling_plan
from controller.core.views.common import (
    EndpointView,
    HopView,
    UnknownHost,
    UnknownJob,
    UnknownLink,
    UnknownSwitch,
    certificate,
    find_switches,
)
from controller.core.views.comparison import DifferenceView, DiffView, SwitchDiffView, diff, diff_of
from controller.core.views.flows import CandidateView, ExplainedFlowView, FlowExplanationView, explain_flow
from controller.core.views.jobs import JobExplanationView, explain_job
from controller.core.views.links import LinkExplanationView, explain_link
from controller.core.views.plans import PlannedFlowView, PlanView, plans
from controller.core.views.topology import HostView, LinkView, SwitchView, TopologyView, topology
from controller.core.views.trace import PacketTraceView

__all__ = [
    "CablingPlanView",
    "CandidateView",
    "DiffView",
    "DifferenceView",
    "EndpointView",
    "ExplainedFlowView",
    "FlowExplanationView",
    "HopView",
    "HostView",
    "JobExplanationView",
    "LinkExplanationView",
    "LinkView",
    "PacketTraceView",
    "PlanView",
    "PlannedFlowView",
    "SwitchDiffView",
    "SwitchView",
    "TopologyView",
    "UnknownHost",
    "UnknownJob",
    "UnknownLink",
    "UnknownSwitch",
    "cabling_plan",
    "certificate",
    "diff",
    "diff_of",
    "explain_flow",
    "explain_job",
    "explain_link",
    "find_switches",
    "plans",
    "topology",
]
