"""What callers ask: announce and withdraw. Checks, changes the state, and answers when it is carried out."""

from collections.abc import Sequence
from dataclasses import replace

from controller.core.commands import Accepted, Command, Failure, Refused, Report, Severity
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn
from controller.core.naming import find_ranks, spelled_out
from controller.core.remembered import Facts, RememberedJob
from controller.core.state import JobState, State, Unit, Waiter
from controller.jobs.announcement import problems
from controller.jobs.collective import Collective, Flow
from controller.jobs.flows import expand, notes


def unit_of(flow: Flow) -> Unit:
    return (flow.src_address, flow.dst_address, flow.udp_source_port)


def announce(state: State, event: CollectiveAnnounced) -> tuple[bool, list[Command]]:
    """(placement must be looked at anew, immediate answers)."""
    ranks, unreadable = spelled_out(event.collective.ranks, "ranks")
    collective = event.collective if ranks == event.collective.ranks else replace(event.collective, ranks=ranks)
    wrong = tuple(unreadable) or problems(collective)
    if wrong:
        return False, [Refused(event.request_id, Failure.INVALID_ARGUMENT, wrong)]
    held = state.jobs.get(collective.job_id)
    if held is not None and held.collective == collective:
        state.waiters.append(Waiter(event.request_id, collective.job_id, state.changes_sent))
        return False, []
    hosts, unknown = find_ranks(state, collective.ranks, collective.ranks_per_host, "ranks")
    if unknown:
        return False, [_unknown_hosts(state, event.request_id, unknown)]
    (first, *others) = {host.name for host in hosts}
    if not others:
        sentence = f"ranks: all are on {first}; nothing would meet the fabric, so announce nothing"
        return False, [Refused(event.request_id, Failure.INVALID_ARGUMENT, (sentence,))]
    crowded = _crowded(collective, [host.name for host in hosts])
    if crowded:
        return False, [Refused(event.request_id, Failure.INVALID_ARGUMENT, crowded)]
    ends = tuple((host.name, host.addresses[0]) for host in hosts)
    _add_job(state, collective, ends)
    state.waiters.append(Waiter(event.request_id, collective.job_id, state.changes_sent))
    return True, []


def _crowded(collective: Collective, hosts: Sequence[str]) -> tuple[str, ...]:
    """A host listed twice is a slip, unless the caller says that servers carry several ranks. A name and an address
    may hide one host behind two spellings, so this looks at what they mean."""
    allowed = max(1, collective.ranks_per_host)
    ranks_of: dict[str, list[int]] = {}
    for rank, host in enumerate(hosts):
        ranks_of.setdefault(host, []).append(rank)
    return tuple(
        f"ranks: {host} is given as ranks {', '.join(map(str, ranks[:5]))}{', ...' if len(ranks) > 5 else ''}; "
        f"name another host, or set ranks_per_host to {len(ranks)} if it carries that many"
        for host, ranks in ranks_of.items()
        if len(ranks) > allowed
    )


def _unknown_hosts(state: State, request_id: int, unknown: list[str]) -> Refused:
    if not state.learning:
        return Refused(request_id, Failure.NOT_FOUND, tuple(unknown))
    excuse = "the controller has just started and is still finding out what is there: ask again in a few seconds"
    return Refused(request_id, Failure.UNAVAILABLE, (*unknown, excuse))


def _add_job(state: State, collective: Collective, ends: tuple[tuple[str, str], ...]) -> tuple[Flow, ...]:
    # By their addresses, since ranks of one host may be on different interfaces of it.
    end_of = {address: (name, address) for name, address in ends}
    flows = expand(replace(collective, ranks=tuple(address for _, address in ends)), end_of.__getitem__)
    state.revision += 1
    state.jobs[collective.job_id] = JobState(collective, ends, flows, notes(collective, flows), state.revision)
    return flows


def restore(state: State, facts: Facts) -> list[Command]:
    """Takes up the jobs of an earlier run, whose hosts need not be known yet.

    What this version finds wrong is dropped and reported: it could never be withdrawn or announced again otherwise.
    """
    reports: list[Command] = []
    state.restored = facts
    for job_id, job in sorted(facts.jobs.items()):
        wrong = problems(job.collective) or _job_mismatch(job_id, job)
        if wrong:
            message = f"job {job_id!r} of an earlier run is forgotten: announce it again"
            reports.append(Report(Severity.ERROR, message, (("problems", "; ".join(wrong)),)))
        else:
            _add_job(state, job.collective, job.ends)
    return reports


def _job_mismatch(job_id: str, job: RememberedJob) -> tuple[str, ...]:
    fits = job_id == job.collective.job_id and len(job.ends) == len(job.collective.ranks)
    return () if fits else ("the store's record does not fit together",)


def withdraw(state: State, event: CollectiveWithdrawn) -> tuple[bool, list[Command]]:
    if event.job_id not in state.jobs:
        return False, [Refused(event.request_id, Failure.NOT_FOUND, (f"job_id: no job {event.job_id!r} is announced",))]
    del state.jobs[event.job_id]
    state.revision += 1
    state.waiters.append(Waiter(event.request_id, event.job_id, state.changes_sent))
    return True, []


def answers(state: State, memory_problem: str) -> list[Command]:
    """For every waiting caller, once the switches hold what was decided and the store has answered.

    With a `memory_problem` nobody is told that the request is carried out: it would not outlive a restart.
    """
    waiters, state.waiters = state.waiters, []
    if memory_problem:
        sentence = f"the switches follow, but nothing can be written down: a restart would undo it ({memory_problem})"
        return [Refused(w.request_id, Failure.UNAVAILABLE, (sentence,)) for w in waiters]
    return [_answer(state, waiter) for waiter in waiters]


def _answer(state: State, waiter: Waiter) -> Command:
    job = state.jobs.get(waiter.job_id)
    flows = job.flows if job else ()
    refused = sum(unit_of(flow) in state.refused_units for flow in flows)
    waiting = sum(unit_of(flow) in state.waiting for flow in flows)
    if refused or waiting:
        placed = sum(unit_of(flow) in state.paths for flow in flows)
        of_all = f"of {len(flows)} flows: {placed} placed, the rest uses ECMP"
        sentences = [f"the switches had no room for {refused} {of_all}"] if refused else []
        silent = ", ".join(sorted({state.view.switches[leaf].name for leaf in state.waiting.values()}))
        sentences += [f"{silent} does not answer, which concerns {waiting} {of_all} until then"] if waiting else []
        failure = Failure.RESOURCE_EXHAUSTED if refused else Failure.UNAVAILABLE
        return Refused(waiter.request_id, failure, tuple(sentences))
    return Accepted(waiter.request_id, waiter.job_id, state.changes_sent - waiter.changes_before)
