"""Reads a job file: one collective in YAML or JSON. It decides the form of the file only.

Whether the ranks exist and the rings visit every rank is the controller's to say: it knows the fabric, and it lists
all such problems in one answer. The keys are the field names of `Collective` in proto/heddle/v1/collective.proto.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from controller.cli.yaml_model import Entry, load_model, size_or_number
from controller.jobs.collective import Algorithm, Operation

Rank = Annotated[int, Field(ge=0)]
UdpPort = Annotated[int, Field(ge=1, le=65535)]


class QueuePairPortsEntry(Entry):
    src_rank: Rank = Field(examples=["0"])
    dst_rank: Rank = Field(examples=["1"])
    udp_source_ports: list[UdpPort] = Field(examples=["[49152, 49153]"])


class PhaseEntry(Entry):
    iteration: str = Field(examples=["llama-70b"])
    number: int = Field(ge=0, lt=2**32, examples=["1"])


class JobFile(Entry):
    """One collective. `size_bytes` takes a unit too ("256MiB"); `rings` holds a list of rank numbers per channel."""

    job_id: str = Field(examples=["llama-70b"])
    # Strictness refuses text for an enumeration, and text is all that YAML has.
    operation: Operation = Field(strict=False, examples=["all-reduce"])
    algorithm: Algorithm | None = Field(default=None, strict=False, examples=["ring"])
    ranks: list[str] = Field(examples=["[h1_1, h1_2, h2_1, h2_2]"])
    size_bytes: Annotated[int, BeforeValidator(size_or_number), Field(ge=1, lt=2**64)] = Field(examples=["256MiB"])
    rings: list[list[Rank]] = Field(default=[], examples=["[[0, 1, 2, 3]]"])
    queue_pairs: int = Field(default=1, ge=1, lt=2**32, examples=["4"])
    ports: list[QueuePairPortsEntry] = Field(
        default=[], examples=["[{src_rank: 0, dst_rank: 1, udp_source_ports: [49152]}]"]
    )
    ranks_per_host: int = Field(default=0, ge=0, lt=2**32, examples=["8"])
    priority: int = Field(default=0, ge=0, le=7, examples=["1"])
    phase: PhaseEntry | None = Field(default=None, examples=["{iteration: llama-70b, number: 1}"])


def load_job(path: Path) -> JobFile:
    """The file's collective. FileFormatError lists everything that is wrong with it, with lines and cures."""
    return load_model(path, JobFile)[0]
