"""Writes a cabling down in other people's formats.

It decides which names a format can take and what becomes of cables that cannot be used: left out, and named in a
remark, so that nobody wonders. Schedulers get no edge switches: to them these are part of their hosts.

Each format's own form is in its module.
"""

from collections.abc import Callable, Iterable

from controller.fabric.cabling import CablingPlan
from controller.fabric.cabling_levels import without_edges
from controller.formats import write_kubernetes, write_ptm, write_slurm, write_topograph
from controller.formats.targets import Target
from controller.formats.writing import ExportError

_WRITERS: dict[Target, Callable[[CablingPlan], Iterable[str]]] = {
    Target.SLURM_CONF: write_slurm.conf_lines,
    Target.SLURM_YAML: write_slurm.yaml_lines,
    Target.TOPOGRAPH: write_topograph.lines,
    Target.KUEUE: write_kubernetes.lines,
    Target.PTM: write_ptm.lines,
}


def export(plan: CablingPlan, target: Target) -> str:
    """The file's text. Raises ExportError, naming everything that this format cannot say."""
    if target is not Target.PTM:
        plan = without_edges(plan)
    return "".join(f"{line}\n" for line in _WRITERS[target](plan))


__all__ = ["ExportError", "Target", "export"]
