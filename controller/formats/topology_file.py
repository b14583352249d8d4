"""Our own topology files: YAML in, `FabricPlan` out, or every fault of the file at once.

It decides the order of work: YAML, form (`topology_schema`), missing numbers (`topology_fill`), the whole
(`topology_checks`). An entry with a fault of form is left out of the later steps, and the rest is still checked, so
that one run shows everything. The format is described in docs/topology-files.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from controller.fabric.plan import FabricPlan, PlannedHost, PlannedLink, PlannedSwitch
from controller.formats.problems import FileFormatError, FileProblem
from controller.formats.topology_checks import Finding, Names, alias_findings, findings
from controller.formats.topology_errors import finding_of
from controller.formats.topology_fill import Entries, Filled, expand, fill, format_ipv4
from controller.formats.topology_schema import HostEntry, LeafSpine, LinkEntry, SwitchEntry, ThreeTier, TopologyFile
from controller.formats.yaml_lines import MAX_BYTES, Document, Location, YamlFaultError, needs_quotes, read_yaml

SCHEMA_COMMENT = "# yaml-language-server: $schema=topology.schema.json"

# The keys under which a regular fabric is written as its dimensions.
_SHAPES: dict[str, type[LeafSpine] | type[ThreeTier]] = {"leaf_spine": LeafSpine, "three_tier": ThreeTier}

_Model = TypeVar("_Model", bound=BaseModel)


class TopologyFileError(FileFormatError):
    """The topology file cannot be used; `problems` says why, with lines and cures."""


def load(path: str | Path) -> FabricPlan:
    """The plan in a topology file. Raises TopologyFileError with every problem, also when the file cannot be read."""
    filename = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TopologyFileError(
            [FileProblem(filename, 0, f"cannot be read: {reason}", "check the path and its permissions")]
        ) from error
    if len(data) > MAX_BYTES:
        what = f"is larger than {MAX_BYTES // 2**20} MiB"
        raise TopologyFileError(
            [FileProblem(filename, 0, what, "is this a topology file? Describe one fabric per file")]
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TopologyFileError([FileProblem(filename, line, "is not UTF-8 text", "save the file as UTF-8")]) from None
    return load_text(text, filename)


def load_text(text: str, filename: str = "<text>") -> FabricPlan:
    """As `load`, from text; `filename` is what the problems are reported under."""
    try:
        document = read_yaml(text)
    except YamlFaultError as error:
        faults = error.faults
        raise TopologyFileError(FileProblem(filename, f.line, f.what, f.cure) for f in faults) from None
    problems = [FileProblem(filename, fault.line, fault.what, fault.cure) for fault in document.faults]
    if not isinstance(document.value, dict) or not document.value:
        what = "the file is empty" if not document.value else "the file is not a mapping of keys to values"
        cure = (
            'start with "name: my-fabric" and "leaf_spine:", "three_tier:" or "switches:"; see docs/topology-files.md'
        )
        raise TopologyFileError([*problems, FileProblem(filename, document.line(), what, cure)])
    found, filled = _examine(document, document.value)
    problems += [FileProblem(filename, _line(document, f), f.what, f.cure) for f in found]
    if problems:
        raise TopologyFileError(problems)
    return _plan(_heading(document.value), filled)


def _line(document: Document, finding: Finding) -> int:
    return document.key_line(*finding.location)


def _examine(document: Document, value: dict[str, Any]) -> tuple[list[Finding], Filled]:
    found, faulty = _faults_of_form(value)
    entries = _sound_entries(value, faulty, found)
    # A rate that is there but wrong has been reported; with any other one it is not reported again for every cable.
    rate_bps = 1 if ("rate",) in faulty else TopologyFile.model_validate({"name": "x", "rate": value.get("rate")}).rate
    filled = fill(entries, rate_bps)
    names = Names(_names(value, "switches"), _names(value, "hosts"))
    if any(shape in value for shape in _SHAPES):
        names = Names({s.name: s.location for s in filled.switches}, {h.name: h.location for h in filled.hosts})
    found += findings(filled, names, lambda location: f"line {document.key_line(*location)}")
    if ("aliases",) not in faulty:
        found += alias_findings(_heading({"name": "x", "aliases": value.get("aliases", {})}).aliases, names)
    return found, filled


def _heading(value: Mapping[str, Any]) -> TopologyFile:
    """The file without its switches, cables and hosts, which are in `Filled`."""
    kept = {key: value[key] for key in ("name", "roce_mtu", "aliases") if key in value}
    return TopologyFile.model_validate(kept)


def _faults_of_form(value: dict[str, Any]) -> tuple[list[Finding], set[Location]]:
    """The faults, and the places (a top-level key, or key and position) that cannot be used because of them."""
    try:
        TopologyFile.model_validate(value)
    except ValidationError as error:
        found = [finding_of(each, _at(value, each["loc"])) for each in error.errors(include_url=False)]
        faulty = {f.location[:2] if isinstance(_second(f.location), int) else f.location[:1] for f in found}
        return found, faulty
    return [], set()


def _second(location: Location) -> str | int | None:
    return location[1] if len(location) > 1 else None


def _at(value: Any, location: Sequence[str | int]) -> Any:
    """The value at that place, or the nearest thing around it that exists."""
    for part in location:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return value
    return value


def _sound_entries(value: dict[str, Any], faulty: set[Location], found: list[Finding]) -> Entries:
    """The entries whose form is right; appends what is wrong with the choice of sections to `found`."""
    sections = [key for key in ("switches", "links", "hosts") if key in value]
    shapes = [shape for shape in _SHAPES if shape in value]
    if shapes:
        shape, *others = shapes
        for key in (*others, *sections):
            what = f'both "{shape}" and "{key}" are given'
            found.append(Finding((key,), what, f"use {shape} alone, or write the fabric out without it"))
        if (shape,) in faulty or others or sections:
            return Entries((), (), ())
        if value[shape] is not None:
            return expand(_SHAPES[shape].model_validate(value[shape]), (shape,))
    if not value.get("switches") and ("switches",) not in faulty:
        location: Location = ("switches",) if "switches" in value else ()
        cure = 'add "leaf_spine: {leaves: 2, spines: 2, hosts_per_leaf: 2}", or a list "switches:"'
        found.append(Finding(location, "the fabric has no switches", cure))
    return Entries(
        _sound(SwitchEntry, value, "switches", faulty),
        _sound(LinkEntry, value, "links", faulty),
        _sound(HostEntry, value, "hosts", faulty),
    )


def _sound(model: type[_Model], value: Any, key: str, faulty: set[Location]) -> tuple[tuple[_Model, Location], ...]:
    if (key,) in faulty or key not in value:
        return ()
    return tuple(
        (model.model_validate(entry), (key, index))
        for index, entry in enumerate(value[key])
        if (key, index) not in faulty
    )


def _names(value: dict[str, Any], key: str) -> dict[str, Location]:
    """Every name in that list, whether or not its entry is sound otherwise."""
    section = value.get(key)
    entries = section if isinstance(section, list) else []
    named = ((_at(entry, ("name",)), index) for index, entry in enumerate(entries) if isinstance(entry, dict))
    return {name: (key, index) for name, index in named if isinstance(name, str)}


def _plan(heading: TopologyFile, filled: Filled) -> FabricPlan:
    return FabricPlan(
        heading.name,
        tuple(PlannedSwitch(switch.name, switch.dpid, switch.role, switch.pod) for switch in filled.switches),
        tuple(PlannedLink(k.a, k.a_port, k.b, k.b_port, k.rate_bps or 0) for k in filled.links),
        tuple(
            PlannedHost(
                h.name, h.switch, h.port, h.mac, format_ipv4(h.address), h.prefix_length, h.rate_bps or 0, h.nic
            )
            for h in filled.hosts
        ),
        tuple(sorted(heading.aliases.items())),
        heading.roce_mtu,
    )


def explicit_yaml(plan: FabricPlan) -> str:
    """A topology file with every number written out, such that `load_text(explicit_yaml(plan)) == plan`.

    The plan must be one that a file can describe: `load` made it, or it has no switch of unknown role.
    """
    return "".join(f"{line}\n" for line in _explicit_lines(plan))


def _explicit_lines(plan: FabricPlan) -> Iterator[str]:
    yield SCHEMA_COMMENT
    yield f"name: {_word(plan.name)}"
    if plan.roce_mtu_bytes is not None:
        yield f"roce_mtu: {plan.roce_mtu_bytes}"
    yield "switches:"
    for switch in plan.switches:
        pod = f", pod: {_word(switch.pod)}" if switch.pod else ""
        yield f"  - {{name: {_word(switch.name)}, role: {switch.role}, dpid: {switch.dpid:#x}{pod}}}"
    if plan.links:
        yield "links:"
    for link in plan.links:
        yield f"  - {{a: {link.a}:{link.a_port}, b: {link.b}:{link.b_port}, rate: {link.rate_bps}}}"
    if plan.hosts:
        yield "hosts:"
    for host in plan.hosts:
        if host.nic == 0:
            yield f"  - {{name: {_word(host.name)}, {_interface(host)}}}"
            continue
        if host.nic == 1:
            yield from (f"  - name: {_word(host.name)}", "    nics:")
        yield f"      - {{{_interface(host)}}}"
    if plan.aliases:
        yield "aliases:"
    for alias, name in plan.aliases:
        yield f'  "{alias}": {_word(name)}'


def _interface(host: PlannedHost) -> str:
    addresses = f'ipv4: {host.ipv4}/{host.prefix_length}, mac: "{host.mac}"'
    return f"at: {host.switch}:{host.port}, {addresses}, rate: {host.rate_bps}"


def _word(text: str) -> str:
    return f'"{text}"' if needs_quotes(text) else text
