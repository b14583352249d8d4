"""How hard placement tries: counted in steps, never in time, so that the same question has the same answer everywhere.

Decides nothing; who asks says how long he can wait.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Effort:
    """`steps`: path evaluations that local search may spend, some 10 microseconds each. `thorough`: every construction
    is tried and the best one improved by every method, and every bound that is affordable is worked out; otherwise one
    construction, and bounds that need no program to be solved. `more`: steps of a second search where the first leaves
    a gap of more than `WORTH_MORE`; 0: there is none."""

    steps: int = 4_000
    thorough: bool = True
    more: int = 0

    @property
    def once(self) -> "Effort":
        return replace(self, more=0)

    @property
    def again(self) -> "Effort":
        return Effort(self.more, self.thorough)


# One in ten of mixed problems with four queue pairs is left with such a gap by 4,000 steps.
WORTH_MORE = 0.02
USUAL = Effort()
FULL = Effort(more=16_000)
# What keeps nobody waiting: a tenth of a second for 8,000 queue pairs of unlike sizes on a fabric with links down.
FIRST = Effort(steps=300, thorough=False)
# Beyond so many flows the usual effort takes longer than that.
MANY_FLOWS = 2_500


def first_effort(flows: int) -> Effort:
    """For whoever cannot wait for so many flows to be placed as well as can be."""
    return FIRST if flows > MANY_FLOWS else USUAL
