"""Readers of cabling plans: nothing a file may hold makes one do worse than refuse, with line and cure."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.fabric.cabling import CablingPlan, outline
from controller.fabric.host_lists import HostListError, collect, expand
from controller.formats.export import ExportError, Target, export
from controller.formats.plan_files import Format, load_text
from controller.formats.problems import FileFormatError
from tests.property.plan_samples import SAMPLES

_FORMATS = st.sampled_from(list(Format))
_SIGNS = "[]{}()<>\"'`,:;=-#/*\\&!|?@%\n\t \0"
_AWKWARD = [
    "--",
    "(null)",
    "n[1-",
    "1-1000000000",
    "[1-3]",
    "ſ",
    "\ud800",
    "é",
    "9" * 30,
    "null",
    "true",
    "1e5",
    "0x1f",
]
_WORDS = ["- ", "  ", "SwitchName=", "Nodes=", "graph", "<a>", "&amp;", "~", "a:1", "&x ", "*x"]
_FRAGMENTS = st.sampled_from([*_SIGNS, *_AWKWARD, *_WORDS])


def read_or_refused(text: str, form: Format | None) -> CablingPlan | None:
    """Whatever is read holds together; whatever is refused says where and how to put it right."""
    try:
        plan = load_text(text, "plan", form)
    except FileFormatError as error:
        refused = error.problems
    else:
        return _holds_together(plan)
    assert refused
    for problem in refused:
        assert problem.what
        assert problem.cure
        assert 0 <= problem.line <= text.count("\n") + text.count("\r") + len(text.splitlines()) + 1
    return None


def _holds_together(plan: CablingPlan) -> CablingPlan:
    switches, hosts = {switch.name for switch in plan.switches}, set(plan.hosts)
    assert not switches & hosts
    assert all(end.node in switches | hosts for cable in plan.cables for end in (cable.a, cable.b))
    return plan


@given(st.text(max_size=400), _FORMATS | st.none())
def test_any_text_is_read_or_refused(text: str, form: Format | None) -> None:
    read_or_refused(text, form)


@given(_FORMATS, st.data())
@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_file_is_read_or_refused(form: Format, data: st.DataObject) -> None:
    text = SAMPLES[form]
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 12))
        put = data.draw(_FRAGMENTS | st.text(max_size=6))
        text = text[:at] + put + text[at + cut :]
    read_or_refused(text, data.draw(st.sampled_from([form, None])))


@pytest.mark.parametrize("form", list(Format))
def test_every_sample_is_read_as_its_own_format(form: Format) -> None:
    assert read_or_refused(SAMPLES[form], None) == load_text(SAMPLES[form], "plan", form)


_TOP = ["topology", "nodes", "links", "switches", "blocks", "tree", "configuration", "cluster_default"]
_INNER = ["endpoints", "switch", "children", "interfaces", "node", "VMs", "vlans", "id", "tier", "kind"]
_KEYS = st.sampled_from([*_TOP, *_INNER, "compounded_links", "compounded_nodes"])
_SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)
_TREES = [Format.SLURM_YAML, Format.CONTAINERLAB, Format.SONIC_TESTBED, Format.TOPOGRAPH, Format.NETQ, None]


@given(_SHAPES, st.sampled_from(_TREES))
@settings(max_examples=400)
def test_any_shape_of_document_is_read_or_refused(value: object, form: Format | None) -> None:
    read_or_refused(json.dumps(value), form)


# --- host lists ------------------------------------------------------------------------------------------


@given(st.text("ab[]-,019() ", max_size=40))
def test_any_expression_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand(text, 500)
    except HostListError:
        return
    assert 1 <= len(names) <= 500
    assert len(set(names)) == len(names)


_HOST_NAMES = st.from_regex(r"[a-z][a-z0-9._-]{0,8}[0-9]{0,3}", fullmatch=True)


@given(st.lists(_HOST_NAMES, min_size=1, max_size=30, unique=True))
def test_collected_names_expand_to_themselves(names: list[str]) -> None:
    assert set(expand(collect(names))) == set(names)


# --- round trips -----------------------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn) -> str:
    """A topology.conf of leaves with nodes under one or several spines, no switch empty."""
    n_leaves, n_spines = draw(st.integers(1, 6)), draw(st.integers(0, 4))
    lines = [f"SwitchName=leaf{n} Nodes=n{n}-[1-{draw(st.integers(1, 5))}]" for n in range(1, n_leaves + 1)]
    for spine in range(n_spines):
        leaves = draw(st.lists(st.integers(1, n_leaves), min_size=1, unique=True))
        lines.append(f"SwitchName=spine{spine} Switches={','.join(f'leaf{n}' for n in leaves)}")
    return "\n".join(draw(st.permutations(lines)))


@given(trees())
def test_what_is_written_for_slurm_reads_back_the_same(text: str) -> None:
    plan = load_text(text)
    for target in (Target.SLURM_CONF, Target.SLURM_YAML):
        assert outline(load_text(export(plan, target))) == outline(plan)


@given(trees())
def test_every_host_keeps_its_place_in_a_topograph_model(text: str) -> None:
    plan = load_text(text)
    written = load_text(export(plan, Target.TOPOGRAPH))
    assert set(written.hosts) == set(plan.hosts)
    assert {(h, s) for h, s, _ in written.to_hosts()} == {(h, s) for h, s, _ in plan.to_hosts()}


@given(_FORMATS, st.sampled_from(list(Target)))
def test_everything_that_is_read_is_written_or_refused(form: Format, target: Target) -> None:
    try:
        written = export(load_text(SAMPLES[form]), target)
    except ExportError:
        return
    assert written.endswith("\n")
