"""Topology files: what is written reads back the same, and no text makes the reader do worse than refuse."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric.plan import FabricPlan
from controller.formats.topology_file import TopologyFileError, explicit_yaml, load_text
from tests.property.strategies import fabric_plans

_ENTRY_KEYS = ["name", "role", "dpid", "a", "b", "rate", "at", "ipv4", "mac", "leaves", "spines", "hosts_per_leaf", "x"]
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from(
        ["leaf", "spine", "leaf1", "leaf1:1", "spine1:65280", "10.0.0.1/8", "02:00:00:00:00:01", "8M", "1.5"]
    ),
    st.text(string.printable, max_size=12),
)
_ENTRIES = st.dictionaries(st.sampled_from(_ENTRY_KEYS), _SCALARS, max_size=6)
_SECTIONS = st.one_of(_SCALARS, _ENTRIES, st.lists(st.one_of(_SCALARS, _ENTRIES), max_size=5))
_FILES = st.dictionaries(
    st.sampled_from(["name", "rate", "leaf_spine", "switches", "links", "hosts", "other"]), _SECTIONS, max_size=6
)


def _refused_or_read(text: str) -> FabricPlan | None:
    """None if refused, and then with problems that have a place, a fault and a cure."""
    try:
        return load_text(text, "file.yaml")
    except TopologyFileError as error:
        problems, printed = error.problems, str(error)
    # YAML counts every kind of line break, and the end of the text may be a line of its own.
    last_line = len(text.splitlines()) + 1
    assert problems
    assert all(0 < problem.line <= last_line and problem.what and problem.cure for problem in problems)
    assert all(line.startswith(("file.yaml:", "and ")) for line in printed.splitlines())
    return None


@given(fabric_plans())
def test_explicit_yaml_reads_back_as_the_same_plan(plan: FabricPlan) -> None:
    assert load_text(explicit_yaml(plan)) == plan


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    _refused_or_read(text)


@given(st.text(alphabet="[]{}:,-&*!|>'\"#%@?\n \tab01<", max_size=200))
def test_any_yaml_punctuation_is_read_or_refused(text: str) -> None:
    _refused_or_read(text)


@settings(max_examples=300)
@given(_FILES)
def test_any_values_under_our_keys_are_read_or_refused(value: dict[str, object]) -> None:
    plan = _refused_or_read(_json_like(value))
    if plan is not None:
        assert load_text(explicit_yaml(plan)) == plan


def _json_like(value: object) -> str:
    """A YAML flow text with every string quoted; JSON itself has escapes that YAML reads differently."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dict():
            return "{" + ", ".join(f"{key}: {_json_like(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_json_like, value)) + "]"
        case _:
            return str(value)


@given(fabric_plans(max_hosts=3), st.data())
def test_a_damaged_file_is_read_or_refused(plan: FabricPlan, data: st.DataObject) -> None:
    text = explicit_yaml(plan)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 20)))
    _refused_or_read(text[:start] + data.draw(st.text(string.printable, max_size=5)) + text[end:])
