"""Any file that says how a fabric is meant to be cabled -> one `CablingPlan`.

It decides which format a file is in, by its content: names of files differ from site to site. The formats themselves
are each read by a module of their own, which docs/cabling.md lists.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from controller.fabric.cabling import CablingPlan, of_fabric_plan
from controller.formats import (
    containerlab,
    minigraph,
    netq,
    ptm,
    slurm_conf,
    slurm_yaml,
    sonic_links,
    sonic_testbed,
    topograph,
    topology_file,
)
from controller.formats.plan_builder import PlanBuilder, PlanFileError
from controller.formats.problems import FileProblem
from controller.formats.yaml_tools import read_tree

MAX_BYTES = 64 * 1024 * 1024


class Format(StrEnum):
    HEDDLE = "heddle"
    SLURM_CONF = "slurm-conf"
    SLURM_YAML = "slurm-yaml"
    PTM = "ptm"
    CONTAINERLAB = "containerlab"
    SONIC_LINKS = "sonic-links"
    SONIC_TESTBED = "sonic-testbed"
    MINIGRAPH = "minigraph"
    TOPOGRAPH = "topograph"
    NETQ = "netq"


_READERS: dict[Format, Callable[[str, str], CablingPlan]] = {
    Format.HEDDLE: lambda text, filename: of_fabric_plan(topology_file.load_text(text, filename)),
    Format.SLURM_CONF: slurm_conf.read,
    Format.SLURM_YAML: slurm_yaml.read,
    Format.PTM: ptm.read,
    Format.CONTAINERLAB: containerlab.read,
    Format.SONIC_LINKS: sonic_links.read,
    Format.SONIC_TESTBED: sonic_testbed.read,
    Format.MINIGRAPH: minigraph.read,
    Format.TOPOGRAPH: topograph.read,
    Format.NETQ: netq.read,
}
_SLURM = re.compile(r"^[ \t]*(switchname|blockname|blocksizes)=", re.IGNORECASE | re.MULTILINE)
# One remark or blank at a time: a repetition inside a repetition would try every way of cutting them up.
_DOT_SPACE = re.compile(r"\s+|//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_DOT = re.compile(r"(strict\s+)?(di)?graph\b[^:=]{0,300}\{", re.IGNORECASE)


def load(path: str | Path) -> CablingPlan:
    """The plan in a file of any known format. Raises FileFormatError with every problem, with lines and cures."""
    filename = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        what = f"cannot be read: {reason}"
        raise PlanFileError([FileProblem(filename, 0, what, "check the path and its permissions")]) from error
    if len(data) > MAX_BYTES:
        what = f"is larger than {MAX_BYTES // 2**20} MiB"
        raise PlanFileError([FileProblem(filename, 0, what, "describe one fabric per file")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise PlanFileError([FileProblem(filename, line, "is not UTF-8 text", "save the file as UTF-8")]) from None
    return load_text(text, filename)


def load_text(text: str, filename: str = "<text>", form: Format | None = None) -> CablingPlan:
    """As `load`, from text; `form` is told from the content when it is not given."""
    return _READERS[form or detect(text, filename)](text, filename)


def detect(text: str, filename: str = "<text>") -> Format:
    """The format. Raises PlanFileError when the content is none of them."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("<"):
        return Format.MINIGRAPH
    if "startdevice" in start.partition("\n")[0].lower():
        return Format.SONIC_LINKS
    if _SLURM.search(text):
        return Format.SLURM_CONF
    if _DOT.match(text, _behind_remarks(text)):
        return Format.PTM
    builder = PlanBuilder(filename, "unknown")
    return _by_keys(read_tree(text, builder).value) or _unknown(builder)


def _behind_remarks(text: str) -> int:
    """Where the first word of a DOT file begins, if it is one."""
    position = 0
    while found := _DOT_SPACE.match(text, position):
        position = found.end()
    return position


def _by_keys(value: Any) -> Format | None:
    """Of a YAML or JSON document."""
    if isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, dict)]
        if any("links" in entry or "nodes" in entry for entry in entries):
            return Format.NETQ
        return Format.SLURM_YAML if any("topology" in entry for entry in entries) else None
    if not isinstance(value, dict):
        return None
    topology = value.get("topology")
    if isinstance(topology, dict):
        testbed = {"VMs", "host_interfaces", "DUT"} & topology.keys()
        return Format.SONIC_TESTBED if testbed else Format.CONTAINERLAB
    if isinstance(value.get("switches"), dict) or {"blocks", "capacity_blocks"} & value.keys():
        return Format.TOPOGRAPH
    if "leaf_spine" in value or "three_tier" in value or isinstance(value.get("switches"), list):
        return Format.HEDDLE
    return Format.NETQ if {"links", "nodes"} <= value.keys() else None


def _unknown(builder: PlanBuilder) -> Format:
    builder.problem(0, "is none of the formats that are known", f"give one of {', '.join(Format)}")
    raise PlanFileError(builder.problems)
