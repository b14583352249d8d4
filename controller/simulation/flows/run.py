"""One run: jobs on a fabric under one strategy, from the first phase of the first job to the last of the last.

Decides what happens in which order: phases of each job, changes of links, fail-over and re-planning after them. Rates
and times between are `engine`'s. A phase that has run before on an otherwise idle and unchanged fabric is not worked
out again: it takes as long as it did.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.placement.phases import PhaseKey
from controller.simulation.flows.engine import FlowEngine
from controller.simulation.flows.fabric import FlowFabric
from controller.simulation.flows.impairments import Impairments, LinkState, links_at
from controller.simulation.flows.jobs import Job, Transfers
from controller.simulation.flows.maxmin import FloatArray
from controller.simulation.flows.recorder import Recorder
from controller.simulation.flows.router import Router, Unit
from controller.simulation.flows.strategies import Strategy
from controller.simulation.flows.wave import IntArray, Lanes, Pace, Wave

# With more links than this the course of single links over time is not kept: it would take gigabytes.
WATCHED_LINKS = 4_096


@dataclass(frozen=True, slots=True)
class Settings:
    """How the wire, the switches and the controller behave.

    `payload_bytes` of every packet travel with `header_bytes` more. `failover_s` after a link dies, switches pass over
    it; `replan_s` after it, a controller has placed anew. `window_packets` are sent again after a loss (1: only the
    lost one). A step is passed on in `segments` parts. Steps are followed lane by lane up to `lane_steps` of them in
    one collective, and together above that.
    """

    payload_bytes: int = 4096
    header_bytes: int = 58
    failover_s: float = 0.01
    replan_s: float = 0.1
    window_packets: int = 1
    segments: int = 1
    lane_steps: int = 5_000
    detail_lanes: int = 8_192

    @property
    def wire_bits(self) -> float:
        """Bits on the wire for each byte of payload."""
        return 8 * (self.payload_bytes + self.header_bytes) / self.payload_bytes


@dataclass(slots=True)
class JobResult:
    """`end_s` is None when the job could not finish. `iteration_s[i]` is how long iteration i took; of that
    `sending_s` in all were transfers, `computing_s` the phases of computing."""

    name: str
    start_s: float
    end_s: float | None = None
    iteration_s: list[float] = field(default_factory=list)
    sending_s: float = 0.0
    computing_s: float = 0.0

    @property
    def completion_s(self) -> float | None:
        return None if self.end_s is None else self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class RunResult:
    """`link_bits` by link number; `transfer_s` how long each lane of each collective took; `bins_bps` has shape
    (bins, watched links), each bin `bin_s` long. `stranded`: flows that no path serves at the end."""

    jobs: tuple[JobResult, ...]
    duration_s: float
    link_bits: FloatArray
    transfer_s: FloatArray
    watched: IntArray
    bins_bps: FloatArray
    bin_s: float
    events: int
    stranded: tuple[str, ...]


def simulate(
    fabric: FlowFabric,
    jobs: Sequence[Job],
    strategy: Strategy,
    seed: int = 0,
    impairments: Impairments | None = None,
    settings: Settings | None = None,
) -> RunResult:
    """Runs everything to its end. Job names must differ (ValueError)."""
    return _Run(fabric, jobs, strategy, seed, impairments or Impairments(), settings or Settings()).result()


@dataclass(slots=True)
class _Progress:
    job: Job
    result: JobResult
    units: dict[tuple[int, int], int]
    iteration: int = 0
    phase: int = 0
    began_s: float = 0.0


class _Run:
    def __init__(
        self,
        fabric: FlowFabric,
        jobs: Sequence[Job],
        strategy: Strategy,
        seed: int,
        impairments: Impairments,
        settings: Settings,
    ) -> None:
        if len({job.name for job in jobs}) < len(jobs):
            raise ValueError("two jobs have the same name; give each its own")
        self._fabric, self._impairments, self._settings = fabric, impairments, settings
        self._strategy = strategy
        units: list[Unit] = []
        self._jobs = [self._register(job, units) for job in jobs]
        self._state = self._links(0.0)
        self._router = Router(fabric, strategy, units, self._state.known, seed)
        self._units = units
        watched = range(fabric.own_links) if fabric.own_links <= WATCHED_LINKS else range(0)
        self._recorder = Recorder(watched)
        self._engine = FlowEngine(fabric.capacity_bps(self._state.factor), self._recorder, settings.detail_lanes)
        self._apply()
        self._transfer_s: list[FloatArray] = []
        self._lanes: dict[int, Lanes] = {}
        # (transfers, how often links or routes have changed) -> (seconds, bits by link).
        self._known: dict[tuple[int, int], tuple[float, FloatArray]] = {}
        self._changes = 0

    def _register(self, job: Job, units: list[Unit]) -> _Progress:
        numbers = {}
        for (source, target), sizes in sorted(job.units().items()):
            numbers[source, target] = len(units)
            name = f"{job.name}/{self._fabric.hosts[source]}>{self._fabric.hosts[target]}"
            phases: dict[PhaseKey, int] = {(job.name, number): size for number, size in sizes.items()}
            units.append(Unit(name, source, target, phases, job.priority))
        return _Progress(job, JobResult(job.name, job.start_s), numbers)

    def result(self) -> RunResult:
        engine = self._engine
        for when in self._impairments.changes_s():
            engine.at(when, self._change)
        for progress in self._jobs:
            engine.at(progress.job.start_s, lambda p=progress: self._begin_iteration(p))  # type: ignore[misc]
        engine.run()
        rows = self._router.rows
        lost = (rows == self._fabric.nowhere).any(axis=1)
        stranded = [u.name for i, u in enumerate(self._units) if lost[self._router.first[i]]]
        return RunResult(
            jobs=tuple(p.result for p in self._jobs),
            duration_s=max((p.result.end_s or engine.now_s for p in self._jobs), default=0.0),
            link_bits=engine.link_bits[: self._fabric.own_links],
            transfer_s=np.concatenate(self._transfer_s) if self._transfer_s else np.empty(0),
            watched=self._recorder.links,
            bins_bps=self._recorder.rates_bps(),
            bin_s=self._recorder.bin_s,
            events=engine.events,
            stranded=tuple(stranded),
        )

    # --- phases ------------------------------------------------------------------------------------------

    def _begin_iteration(self, progress: _Progress) -> None:
        progress.began_s, progress.phase = self._engine.now_s, 0
        self._begin_phase(progress)

    def _begin_phase(self, progress: _Progress) -> None:
        if progress.phase == len(progress.job.phases):
            self._end_iteration(progress)
            return
        phase = progress.job.phases[progress.phase]
        now_s = self._engine.now_s
        computing_s = (
            phase.compute_s * self._impairments.slowdown(progress.job.hosts, now_s) if phase.compute_s else 0.0
        )
        progress.result.computing_s += computing_s
        self._engine.at(now_s + computing_s, lambda: self._send(progress, phase.transfers))

    def _end_iteration(self, progress: _Progress) -> None:
        now_s = self._engine.now_s
        progress.result.iteration_s.append(now_s - progress.began_s)
        progress.iteration += 1
        if progress.iteration == progress.job.iterations:
            progress.result.end_s = now_s
        else:
            self._begin_iteration(progress)

    def _send(self, progress: _Progress, transfers: Transfers | None) -> None:
        if transfers is None or not len(transfers):
            self._next_phase(progress)
            return
        engine = self._engine
        known = self._known.get((id(transfers), self._changes))
        if known is not None and engine.idle and engine.now_s + known[0] <= engine.next_timer_s:
            engine.carry(*known)
            engine.at(engine.now_s + known[0], lambda: self._sent(progress, known[0]))
            return
        alone, changes, before = engine.idle, self._changes, engine.link_bits.copy()
        if id(transfers) not in self._lanes:
            self._lanes[id(transfers)] = self._lanes_of(progress, transfers)
        lanes = self._lanes[id(transfers)]
        pace = self._pace(transfers)

        def on_end(wave: Wave) -> None:
            took_s = engine.now_s - wave.started_s
            self._transfer_s.append(wave.finished_s - wave.started_s)
            if alone and changes == self._changes and self._undisturbed(wave):
                self._known[id(transfers), changes] = (took_s, engine.link_bits - before)
            self._sent(progress, took_s)

        self._latest = wave = Wave(lanes, pace, self._router.rows[lanes.flow], engine.now_s, on_end)
        engine.start(wave)

    def _undisturbed(self, wave: Wave) -> bool:
        """Whether nothing else was sent meanwhile: no other wave began, and none is there now."""
        return self._latest is wave and self._engine.idle

    def _sent(self, progress: _Progress, took_s: float) -> None:
        progress.result.sending_s += took_s
        self._next_phase(progress)

    def _next_phase(self, progress: _Progress) -> None:
        progress.phase += 1
        self._begin_phase(progress)

    def _pace(self, transfers: Transfers) -> Pace:
        if (
            transfers.pace == Pace.RANK
            and int(transfers.steps.sum()) * self._settings.segments > self._settings.lane_steps
        ):
            return Pace.TOGETHER
        return transfers.pace

    def _lanes_of(self, progress: _Progress, transfers: Transfers) -> Lanes:
        """A lane for each part of each transfer's flow."""
        unit = np.array([progress.units[ends] for ends, _ in transfers.ends()], dtype=np.int64)
        parts = self._router.parts[unit]
        within = np.arange(int(parts.sum())) - np.repeat(np.cumsum(parts) - parts, parts)
        segments = self._settings.segments if self._pace(transfers) == Pace.RANK else 1
        servers = {server: n for n, server in enumerate(sorted({*self._server_of(transfers).values()}))}
        of = self._server_of(transfers)
        source, target = (
            np.array([servers[of[host]] for host in side.tolist()], dtype=np.int64)
            for side in (transfers.source, transfers.target)
        )
        bits = transfers.size_bytes * self._settings.wire_bits / (parts * segments)
        return Lanes(
            flow=np.repeat(self._router.first[unit], parts) + within,
            source=np.repeat(source, parts),
            target=np.repeat(target, parts),
            first=np.repeat(transfers.first * segments, parts),
            count=np.repeat(transfers.steps * segments, parts),
            segment_bits=np.repeat(bits, parts),
            servers=len(servers),
            segments=segments,
        )

    @staticmethod
    def _server_of(transfers: Transfers) -> dict[int, int]:
        hosts = {*transfers.source.tolist(), *transfers.target.tolist()}
        return {host: transfers.server.get(host, host) for host in hosts}

    # --- links -------------------------------------------------------------------------------------------

    def _links(self, now_s: float) -> LinkState:
        return links_at(self._fabric, self._impairments.links, now_s, self._settings.window_packets)

    def _apply(self) -> None:
        fabric, state = self._fabric, self._state
        arriving = np.ones(fabric.links)
        arriving[: fabric.own_links] = state.arriving
        self._engine.set_links(fabric.capacity_bps(state.factor), arriving)

    def _change(self) -> None:
        """Links have changed now: rates at once, paths when switches and controller have reacted."""
        before, self._state = self._state, self._links(self._engine.now_s)
        self._changes += 1
        self._apply()
        if (before.known == self._state.known).all():
            return
        now_s = self._engine.now_s
        self._engine.at(now_s + self._settings.failover_s, lambda: self._reroute(controller=False))
        if self._strategy.controlled:
            self._replan_at(now_s + self._settings.replan_s)

    def _replan_at(self, when_s: float) -> None:
        back_s = self._impairments.controller_back_s(when_s)
        # What happens during an outage is learnt together when it ends.
        self._engine.at(back_s, lambda: self._reroute(controller=True))

    def _reroute(self, *, controller: bool) -> None:
        known = self._links(self._engine.now_s).known
        if controller and self._impairments.controller_back_s(self._engine.now_s) > self._engine.now_s:
            return
        if controller:
            self._router.replan(known)
        else:
            self._router.fail_over(known)
        self._changes += 1
        for wave in self._engine.waves:
            wave.rows = self._router.rows[wave.lanes.flow]
        self._engine.reroute()
