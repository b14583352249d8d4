"""Cumulus PTM's topology.dot: an undirected graph in Graphviz's language, whose edges are cables.

It decides which part of the language counts: edges between "switch":"port" pairs, node statements (for
function="host"), templates (NAME="...") and the references to them. Clusters and arrows are no cabling and refused.
A reference to a template that the file lacks is a problem. Source: github.com/CumulusNetworks/ptm, topology.dot(5).
"""

from dataclasses import dataclass, field
from itertools import pairwise

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.formats.dot_words import DotFaultError, Word, words
from controller.formats.plan_builder import PlanBuilder, PlanFileError

_HOST_FUNCTIONS = {"host", "server"}
_MATCH_TYPES = {"portdescr", "ifname"}
_TEMPLATE_KEYS = {"bfdtmpl", "lldptmpl"}


def read(text: str, filename: str) -> CablingPlan:
    """The plan, which bears the graph's name. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "ptm")
    try:
        graph = _Parser(words(text), builder)
        graph.read()
    except DotFaultError as error:
        builder.problem(error.line, error.what, error.cure)
        raise PlanFileError(builder.problems) from None
    graph.add()
    return builder.plan(graph.name or "ptm")


@dataclass(slots=True)
class _Parser:
    """Recursive descent without recursion: the part of the language that we take does not nest."""

    words: list[Word]
    builder: PlanBuilder
    at: int = 0
    name: str = ""
    edges: list[tuple[CableEnd, CableEnd, int, dict[str, str]]] = field(default_factory=list)
    nodes: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        if self._is_word("strict"):
            self._next()
        if self._is_word("digraph"):
            self._fail("a digraph, whose arrows no cable has", 'write "graph" and "--"')
        if not self._is_word("graph"):
            self._fail(f"{self._here()} where the graph should begin", "begin with: graph G {")
        self._next()
        if self._peek().kind == "name":
            self.name = self._next().text
        self._expect("{")
        while not self._is("}"):
            self._statement()
        self._next()
        if self._peek().kind != "end":
            self._fail(f"{self._here()} behind the graph's end", "remove it; one graph makes one file")

    def _statement(self) -> None:
        if self._is(";") or self._is(","):
            self._next()
            return
        if self._is("{") or self._is_word("subgraph"):
            self._fail("a group of nodes", "write each cable out, without groups")
        if self._peek().kind != "name":
            self._fail(f"{self._here()} where a statement should begin", 'write "leaf1":"swp1" -- "spine1":"swp1"')
        first = self._next()
        if self._is("="):
            self._next()
            self.templates[first.text] = self._name("a value")
            return
        if not first.quoted and first.text.lower() in ("graph", "node", "edge") and self._is("["):
            self._attributes()
            return
        ends = [self._end(first)]
        while self._is("--"):
            self._next()
            ends.append(self._end(self._name_word("the other end of the cable")))
        if self._is("->"):
            self._fail("an arrow, which no cable has", 'write "--"')
        attributes = self._attributes()
        if len(ends) == 1:
            self.nodes.setdefault(first.text, (first.line, {}))[1].update(attributes)
        self.edges += [(a, b, first.line, attributes) for a, b in pairwise(ends)]

    def _end(self, node: Word) -> CableEnd:
        """ "switch":"port"; also "switch:port" inside one pair of quotes."""
        if self._is(":"):
            self._next()
            return CableEnd(node.text, self._name("a port"))
        name, _, port = node.text.partition(":")
        return CableEnd(name, port) if node.quoted and name and port else CableEnd(node.text)

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._is("["):
            self._next()
            while not self._is("]"):
                if self._is(",") or self._is(";"):
                    self._next()
                    continue
                key = self._name('an attribute, or "]"')
                self._expect("=")
                found[key] = self._name("a value")
            self._next()
        return found

    # --- what was read, as a plan ----------------------------------------------------------------------

    def add(self) -> None:
        for name, (line, attributes) in self.nodes.items():
            if attributes.get("function", "").lower() in _HOST_FUNCTIONS:
                self.builder.host(name, line)
            else:
                self.builder.switch(name, line)
        for a, b, line, attributes in self.edges:
            self._check_templates(attributes, line)
            self.builder.cable(a, b, line)

    def _check_templates(self, attributes: dict[str, str], line: int) -> None:
        for name in ("LLDP", "BFD"):
            for setting in attributes.get(name, "").replace(";", ",").split(","):
                key, _, value = (part.strip() for part in setting.partition("="))
                if key in _TEMPLATE_KEYS and value not in self.templates:
                    what = f'{name} refers to template "{value}", which this file lacks'
                    self.builder.problem(line, what, f'add {value or "NAME"}="..." to the graph, or correct the name')
                elif key == "match_type" and value not in _MATCH_TYPES:
                    self.builder.problem(line, f'match_type is "{value}"', 'write "portdescr" or "ifname"')

    # --- words -----------------------------------------------------------------------------------------

    def _peek(self) -> Word:
        return self.words[self.at]

    def _next(self) -> Word:
        word = self.words[self.at]
        self.at = min(self.at + 1, len(self.words) - 1)
        return word

    def _is(self, sign: str) -> bool:
        return self._peek().kind == "sign" and self._peek().text == sign

    def _is_word(self, text: str) -> bool:
        here = self._peek()
        return here.kind == "name" and not here.quoted and here.text.lower() == text

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            self._fail(f'{self._here()} where "{sign}" belongs', f'write "{sign}" before it')
        self._next()

    def _name(self, what: str) -> str:
        return self._name_word(what).text

    def _name_word(self, what: str) -> Word:
        if self._peek().kind != "name":
            self._fail(f"{self._here()} where {what} belongs", "complete the statement before it")
        return self._next()

    def _here(self) -> str:
        here = self._peek()
        return "the end of the file" if here.kind == "end" else f'"{here.text[:40]}"'

    def _fail(self, what: str, cure: str) -> None:
        raise DotFaultError(self._peek().line, what, cure)
