"""Shows what the demo measured: one table, sentences, pictures, and the JSON that machines read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from demo_scenarios import Failover, Qos, Strategy, leaf_uplinks, max_over_mean
from lab_checks import interface_name
from lab_fabric import FabricLab
from rich.console import Console
from rich.table import Table

from controller.cli.picture import FabricPicture, PictureHost, PictureLink, PictureSwitch, save


def as_json(
    fabric: Mapping[str, Any],
    bound_s: float,
    strategies: Sequence[Strategy],
    uplinks: Sequence[str],
    failover: Failover | None,
    qos: Qos | None,
) -> dict[str, Any]:
    """Lists are by seed. `cpu_share` is the largest of any run, of the whole machine; loads are bytes."""
    runs = [run for s in strategies for run in s.runs]
    return {
        "fabric": dict(fabric),
        "bound_s": bound_s,
        "cpu_share": max(run.cpu_machine for run in runs),
        "switch_cpu_share": max(run.cpu_switch for run in runs),
        "strategies": {
            s.name: {
                "completion_s": [run.completion_s for run in s.runs],
                "max_over_mean": [max_over_mean(run.uplink_load(uplinks)) for run in s.runs],
                "retransmissions": [run.retransmissions for run in s.runs],
                "uplink_bytes": [dict(zip(uplinks, run.uplink_load(uplinks), strict=True)) for run in s.runs],
            }
            for s in strategies
        },
        "failover": _fields(failover),
        "qos": _fields(qos),
    }


def _fields(value: Failover | Qos | None) -> dict[str, Any]:
    return {} if value is None else {name: getattr(value, name) for name in value.__slots__}


def show(console: Console, result: Mapping[str, Any]) -> None:
    """Everything, for a person."""
    console.print(_comparison(result))
    console.print(_uplinks(result))
    fabric = result["fabric"]
    console.print(
        f"Lower bound {result['bound_s']:.2f} s: no schedule of this ring on links of "
        f"{fabric['rate_bps'] / 1e6:g} Mb/s is quicker. Busiest run: {result['cpu_share']:.0%} of the machine's "
        f"processors, {result['switch_cpu_share']:.0%} of one for the switch daemon."
    )
    if result["failover"]:
        f = result["failover"]
        console.print(
            f"Uplink {f['link']} cut under way: completed in {f['completion_s']:.2f} s. The flow on it paused "
            f"{f['gap_s'] * 1000:.0f} ms, {f['gap_packets']} packets at full rate (longest pause before the cut: "
            f"{f['usual_gap_s'] * 1000:.0f} ms); {f['retransmissions']} packets were sent again, "
            f"{f['flows_moved']} flows have a new path. (The pause includes the sender's own timer: what was queued "
            f"on the dead link is sent again after 200 ms.)"
        )
    if result["qos"]:
        q = result["qos"]
        without = (
            f"{q['without_queues_s']:.2f} s without"
            if q["without_queues_s"]
            else f"not finished without: {q['without_queues_delivered']:.0%} had arrived after "
            f"{q['without_queues_limit_s']:.1f} s"
        )
        console.print(
            f"Background of {q['background']}: {q['with_queues_s']:.2f} s with queues, {without}, "
            f"{q['idle_s']:.2f} s alone (bound {q['bound_s']:.2f} s). Served by {q['mechanism']}."
        )


def _comparison(result: Mapping[str, Any]) -> Table:
    fabric = result["fabric"]
    table = Table(
        title=f"Ring all-reduce of {fabric['size_bytes']:,} bytes, {fabric['ranks']} ranks, {fabric['shape']}",
        caption=f"{fabric['source']}; max/mean is the fullest leaf uplink over the mean of all",
    )
    table.add_column("strategy")
    for column in ("time", "worst", "x bound", "worst", "max/mean", "worst", "seeds"):
        table.add_column(column, justify="right")
    for name, s in result["strategies"].items():
        times, ratios = s["completion_s"], s["max_over_mean"]
        table.add_row(
            name,
            f"{fmean(times):.2f} s",
            f"{max(times):.2f} s",
            f"{fmean(times) / result['bound_s']:.2f}",
            f"{max(times) / result['bound_s']:.2f}",
            f"{fmean(ratios):.2f}",
            f"{max(ratios):.2f}",
            str(len(times)),
        )
    return table


def _uplinks(result: Mapping[str, Any]) -> Table:
    table = Table(title="Load of each leaf's uplinks, in flows, in the slowest run of each strategy", padding=(0, 0))
    table.add_column("strategy")
    chosen = {}
    for name, s in result["strategies"].items():
        worst = max(range(len(s["completion_s"])), key=s["completion_s"].__getitem__)
        chosen[name] = s["uplink_bytes"][worst]
    first = next(iter(chosen.values()))
    leaves: dict[str, list[str]] = {}
    for uplink in first:
        leaves.setdefault(uplink.partition("-")[0], []).append(uplink)
    for leaf in leaves:
        table.add_column(leaf, justify="right", no_wrap=True)
    unit = result["fabric"]["flow_bytes"]
    for name, load in chosen.items():
        table.add_row(name, *(" ".join(f"{load[u] / unit:.1f}" for u in uplinks) for uplinks in leaves.values()))
    return table


def pictures(lab: FabricLab, strategies: Sequence[Strategy], bound_s: float, folder: Path) -> list[Path]:
    """The fabric with its link loads in the slowest run of each strategy. A load of 1 is a link full all the time."""
    files = []
    for strategy in strategies:
        run = max(strategy.runs, key=lambda r: r.completion_s)
        ratio = max_over_mean(run.uplink_load(leaf_uplinks(lab)))
        picture = FabricPicture(
            title=f"{strategy.name}: {run.completion_s:.2f} s, {run.completion_s / bound_s:.2f} x the lower bound",
            subtitle=f"share of each link's time that was used; uplinks max/mean {ratio:.2f}",
            switches=tuple(PictureSwitch(s.name, s.role.value) for s in lab.plan.switches),
            links=tuple(
                PictureLink(
                    k.a,
                    k.b,
                    _share(run.load[interface_name(k.a, k.a_port)], k.rate_bps, run.completion_s),
                    _share(run.load[interface_name(k.b, k.b_port)], k.rate_bps, run.completion_s),
                )
                for k in lab.plan.links
            ),
            hosts=tuple(PictureHost(h.label, h.switch) for h in lab.plan.hosts),
        )
        file = folder / f"links-{strategy.name}.png"
        save(picture, file)
        files.append(file)
    return files


def _share(sent_bytes: int, rate_bps: int, seconds: float) -> float:
    return sent_bytes * 8 / rate_bps / seconds


def write_json(result: Mapping[str, Any], file: Path) -> None:
    file.write_text(json.dumps(result, indent=2) + "\n")
