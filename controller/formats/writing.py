"""What the writers of schedulers' files share: safe names, words in YAML, and remarks on what is left out.

It decides nothing about any one format.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from controller.fabric.cabling import CablingPlan
from controller.fabric.host_lists import collect
from controller.formats.yaml_lines import needs_quotes

# What Slurm, Kubernetes and host-list expressions all take.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ExportError(Exception):
    """`problems` are sentences with their cures."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def check_names(plan: CablingPlan, target: str) -> None:
    """Raises ExportError for names that would mean something else, or nothing, in a scheduler's file."""
    named = [("switch", switch.name) for switch in plan.switches] + [("host", host) for host in plan.hosts]
    problems = [
        f"{kind} name {name!r} cannot be written to {target}: use letters, digits, dot, dash and underscore"
        for kind, name in named
        if _NAME.fullmatch(name) is None
    ]
    if not plan.switches:
        problems.append("the fabric has no switches: there is nothing to write")
    if problems:
        raise ExportError(problems)


def word(text: str) -> str:
    """Text as a YAML scalar that every reader takes for text."""
    return json.dumps(text) if needs_quotes(text) else text


def rail_remarks(plan: CablingPlan) -> Iterator[str]:
    """One remark for each rail, for formats that have no words for it."""
    carriers: dict[int, list[str]] = defaultdict(list)
    for switch in plan.switches:
        for rail in switch.rails:
            carriers[rail].append(switch.name)
    yield from (f"# rail {rail}: {collect(names)}" for rail, names in sorted(carriers.items()))


def left_out(plan: CablingPlan) -> Iterator[str]:
    """One remark for each cable that cannot be used."""
    for cable in plan.cables:
        if not cable.usable:
            yield f"# left out, {cable.state}: {cable.a} to {cable.b}"
