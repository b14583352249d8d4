"""The two plots of docs/placement.md: how full the fullest link gets by each method, and how time grows."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from _placement_quality import Row
from _placement_speed import SpeedRow

_DPI = 90
_SHOWN = ("32 x 32 x 32", "4 jobs, a size per job")


def draw(folder: Path, quality: Sequence[Row], grown: Sequence[SpeedRow]) -> None:
    """Writes placement-quality.png and placement-growth.png, each only where its rows are there."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = [row for row in quality if (row.fabric, row.traffic) == _SHOWN]
    if shown:
        _draw_quality(folder / "placement-quality.png", shown)
    if grown:
        _draw_growth(folder / "placement-growth.png", grown)


def _draw_quality(file: Path, shown: Sequence[Row]) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    names = list(dict.fromkeys((row.method, row.queue_pairs) for row in shown))
    failures = sorted({row.failed for row in shown})
    height = 0.8 / len(failures)
    for i, failed in enumerate(failures):
        by_name = {(row.method, row.queue_pairs): row for row in shown if row.failed == failed}
        places = [len(names) - n + (1 - i) * height for n in range(len(names))]
        medians = [by_name[name].to_ideal_median for name in names]
        tails = [by_name[name].to_ideal_p99 - by_name[name].to_ideal_median for name in names]
        axes.barh(
            places, medians, height, xerr=[[0.0] * len(names), tails], label=f"{failed:.0%} of links failed", capsize=2
        )
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks([len(names) - n for n in range(len(names))], [_label(*name) for name in names], fontsize=8)
    axes.set_xlabel(
        "fullest link, as a multiple of ideal packet spraying (bar: median, whisker: 99th percentile)", fontsize=8
    )
    axes.set_title(
        f"{shown[0].fabric} (leaves x spines x hosts), {shown[0].traffic}, {shown[0].seeds} seeds", fontsize=9
    )
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=_DPI)
    plt.close(figure)


def _label(method: str, queue_pairs: int) -> str:
    return (
        method if "QP" in method or not queue_pairs else f"{method}, {queue_pairs} QP{'s' if queue_pairs > 1 else ''}"
    )


def _draw_growth(file: Path, grown: Sequence[SpeedRow]) -> None:
    figure, axes = plt.subplots(figsize=(5.5, 3.6))
    flows = [row.flows for row in grown]
    axes.loglog(flows, [row.median_ms for row in grown], "o-", label="Heddle: paths, loads and certificate")
    axes.loglog(
        flows, [row.reference_ms or 0.0 for row in grown], "s--", label="textbook edge colouring alone, plain Python"
    )
    for row in grown:
        axes.annotate(
            row.case.split(",")[0], (row.flows, row.median_ms), fontsize=7, textcoords="offset points", xytext=(4, -10)
        )
    # Room for the last fabric's name.
    axes.margins(x=0.15)
    axes.set_xlabel("flows", fontsize=8)
    axes.set_ylabel("CPU milliseconds (median)", fontsize=8)
    axes.legend(fontsize=8)
    axes.grid(which="both", linewidth=0.3)
    figure.tight_layout()
    figure.savefig(file, dpi=_DPI)
    plt.close(figure)
