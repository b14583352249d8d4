"""The pictures of `heddle simulate --plots`: how full links are, how long transfers take, and the course of time.

Decides what is drawn and how; every strategy has one colour in all three.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from controller.simulation.flows.maxmin import FloatArray
from controller.simulation.flows.strategies import STRATEGIES
from controller.simulation.flows.summary import RunSummary

_DPI = 110
Found = Mapping[str, Sequence[RunSummary]]


def draw(folder: Path, name: str, found: Found) -> list[Path]:
    """Writes NAME-links.png, NAME-transfers.png and NAME-timeline.png; returns those that have anything to show."""
    folder.mkdir(parents=True, exist_ok=True)
    routed = {key: runs for key, runs in found.items() if not STRATEGIES[key].ideal}
    drawn = [
        _cdf(
            folder / f"{name}-links.png",
            routed,
            lambda run: run.load_s,
            "seconds that a link between switches carries at full rate",
            "links",
        ),
        _cdf(
            folder / f"{name}-transfers.png",
            found,
            lambda run: run.transfer_s,
            "seconds that a transfer takes",
            "transfers",
        ),
        _timeline(folder / f"{name}-timeline.png", routed),
    ]
    return [file for file in drawn if file is not None]


def _cdf(file: Path, found: Found, values: Callable[[RunSummary], FloatArray], label: str, what: str) -> Path | None:
    """Of all seeds together."""
    curves = {key: np.sort(np.concatenate([values(run) for run in runs])) for key, runs in found.items()}
    if not any(len(curve) for curve in curves.values()):
        return None
    figure, axes = _figure()
    for key, curve in curves.items():
        # Steps, because that is what a distribution of few values is; steps of thousands are drawn as a few hundred.
        shown = curve if len(curve) <= 1_000 else np.percentile(curve, np.linspace(0, 100, 500))
        share = np.arange(1, len(shown) + 1) / max(len(shown), 1)
        axes.step(shown, share, where="post", label=STRATEGIES[key].title, color=_colour(key), linestyle=_style(key))
    axes.set_xlabel(label, fontsize=9)
    axes.set_ylabel(f"share of {what}", fontsize=9)
    axes.set_xlim(left=0)
    return _saved(figure, axes, file)


def _timeline(file: Path, found: Found) -> Path | None:
    """Of the first seed: the fullest link and the mean of all."""
    shown = {key: runs[0] for key, runs in found.items() if runs and runs[0].series.fullest}
    if not shown:
        return None
    figure, axes = _figure()
    for key, run in shown.items():
        times = np.arange(len(run.series.fullest)) * run.series.bin_s
        axes.step(times, run.series.fullest, where="post", color=_colour(key), label=STRATEGIES[key].title)
        axes.step(times, run.series.mean, where="post", color=_colour(key), linewidth=0.7, linestyle=":")
    axes.set_xlabel("seconds", fontsize=9)
    axes.set_ylabel("share of the rate: fullest link (dotted: mean)", fontsize=9)
    axes.set_ylim(0, 1.05)
    axes.set_xlim(left=0)
    return _saved(figure, axes, file)


def _colour(key: str) -> str:
    """Ten colours are for those that choose paths; what none can beat is black."""
    routed = [name for name, strategy in STRATEGIES.items() if not strategy.ideal]
    return f"C{routed.index(key)}" if key in routed else "black"


def _style(key: str) -> str:
    return "--" if STRATEGIES[key].ideal else "-"


def _figure() -> tuple[Any, Any]:
    return plt.subplots(figsize=(6.4, 4.0))


def _saved(figure: Any, axes: Any, file: Path) -> Path:
    axes.grid(linewidth=0.3)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=_DPI)
    plt.close(figure)
    return file
