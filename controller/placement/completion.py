"""What no run of the collectives can beat, whatever others send: the bound at full link rates, and the hosts' links.

A certificate's bound leaves measured background its room. That is how placement should reckon, but it is no law: queues
may push the background aside, it may end, and what a job sent by hash before it was announced was counted as
background too. So beside it stands a bound that needs no belief. Decides nothing.
"""

from dataclasses import replace

from controller.fabric.model import PortRef
from controller.placement.capacity import NEGLIGIBLE_SHARE
from controller.placement.cut_bounds import cut_bound
from controller.placement.instance import Instance
from controller.placement.problem import Placement, Problem


def with_completion(
    problem: Problem, placement: Placement, busiest_host_link_s: float, whole: bool = True
) -> Placement:
    """`placement`, certified with the fabric of `problem` at full rates and with the hosts' own links.

    `whole` is False where the placement's own bound is about a part of that fabric, as when flows go round switches
    that do not answer.
    """
    bound_s = placement.certificate.lower_bound_s
    if not whole or problem.phases or counted_background(problem):
        # What may be sent at any time may wait for the phase in which its links have room.
        bound_s = cut_bound(Instance.of(replace(problem, background_bps={}))).seconds
    completion_s = max(bound_s, busiest_host_link_s)
    return replace(placement, certificate=replace(placement.certificate, completion_bound_s=completion_s))


def counted_background(problem: Problem) -> tuple[PortRef, ...]:
    """The link directions on which background takes room from announced flows, sorted."""
    return tuple(
        sorted(
            port
            for port, rate_bps in problem.background_bps.items()
            if port in problem.capacity_bps and rate_bps >= NEGLIGIBLE_SHARE * problem.capacity_bps[port]
        )
    )
