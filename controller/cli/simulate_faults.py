"""What is wrong with a simulation file, gathered while its fabric and jobs are made. It decides nothing else."""

from dataclasses import dataclass, field
from pathlib import Path

from controller.formats.problems import FileProblem
from controller.formats.yaml_lines import Document, Location


@dataclass
class Faults:
    """Every fault with the line that it is on."""

    path: Path
    document: Document
    found: list[FileProblem] = field(default_factory=list)

    def add(self, location: Location, what: str, cure: str) -> None:
        self.found.append(FileProblem(str(self.path), self.line(*location), what, cure))

    def line(self, *location: str | int) -> int:
        return self.document.line(*location)
