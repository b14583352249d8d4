"""topograph's model file, from a cabling.

It decides that switches which only a graph tells apart become one: a model is a tree, and a leaf has one parent there.
A remark says which switches stand behind such a name.
"""

from collections.abc import Iterator

from controller.fabric.cabling import CablingPlan
from controller.fabric.cabling_levels import groups
from controller.fabric.host_lists import collect
from controller.formats.writing import check_names, left_out, rail_remarks, word


def lines(plan: CablingPlan) -> Iterator[str]:
    """Lines of the model. Raises ExportError."""
    check_names(plan, "topograph")
    found = groups(plan)
    yield "# topograph model, written by heddle export topograph"
    yield from rail_remarks(plan)
    for group in found:
        if len(group.switches) > 1:
            yield f"# {group.name} stands for {collect(group.switches)}"
    parents = [group for group in reversed(found) if any(below.parent == group.name for below in found)]
    yield "switches:" if parents else "switches: {}"
    for group in parents:
        yield f"  {word(group.name)}:"
        yield "    switches:"
        yield from (f"    - {word(below.name)}" for below in found if below.parent == group.name)
    leaves = [group for group in found if group.hosts]
    yield "blocks:" if leaves else "blocks: []"
    for group in leaves:
        yield f"- switch: {word(group.name)}"
        yield "  nodes:"
        yield f'  - "{collect(group.hosts)}"'
    yield from left_out(plan)
