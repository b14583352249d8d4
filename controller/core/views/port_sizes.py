"""Ports between switches that are too small for full RoCE packets, as alarms."""

from controller.core.machine import Core
from controller.core.views.common import endpoint
from controller.fabric.model import PortRef
from controller.health.mtu import mtu_problems


def mtu_alarms(core: Core) -> tuple[str, ...]:
    """Of every cable that is there or was meant to be, as far as MTUs are known."""

    def name(ref: PortRef) -> str:
        end = endpoint(core, ref)
        said = "" if end.port_name in (str(ref.port_no), f"{end.switch}-eth{ref.port_no}") else f" ({end.port_name})"
        return f"{end.switch}:{ref.port_no}{said}"

    plan = core.settings.plan
    cables = [*((link.a, link.b) for link in core.state.reduced.whole.links), *core.plan.links]
    return mtu_problems(cables, core.mtu_bytes, plan.roce_mtu_bytes if plan else None, name)
