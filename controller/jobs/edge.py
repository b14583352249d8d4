"""One edge of a collective: the word in which all algorithms say who sends how much to whom, and when."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """What one channel sends from one rank to another in one run: `size_bytes` in `steps` equal parts.

    A step is a round of the algorithm: what a rank sends in one depends on what it received in the ones before. The
    first part is sent in step `first_step` (from 0), one part in each step from there on.
    """

    src_rank: int
    dst_rank: int
    size_bytes: int
    first_step: int = 0
    steps: int = 1

    @property
    def step_bytes(self) -> int:
        """Bytes in each step that the edge is active; exact, because every algorithm sends whole chunks."""
        return self.size_bytes // self.steps
