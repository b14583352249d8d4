"""The controller with switches that do nothing by themselves when a link fails: its own repair alone, for comparison.

Every leaf is reached over one link, chosen once, without failover and without detours; the rest is Heddle as it is.
"""

from collections.abc import Mapping
from dataclasses import replace

import typer

from controller.core import survey
from controller.fabric.model import FabricView
from controller.pipeline.compile import compile_base
from controller.pipeline.rules import SwitchTables
from controller.qos.classes import QosSettings
from controller.runtime.__main__ import main


def without_failover(view: FabricView, qos: QosSettings, rate: int, *_: object) -> Mapping[int, SwitchTables]:
    """What `compile_base` gives switches without extensions that have no room for groups."""
    plain = replace(view, switches={dpid: replace(s, nicira=False) for dpid, s in view.switches.items()})
    return compile_base(plain, qos, rate, unspread=view.switches.keys(), without_detours=view.switches.keys())


if __name__ == "__main__":
    survey.compile_base = without_failover  # type: ignore[assignment]
    typer.run(main)
