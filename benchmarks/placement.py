"""How good placement is and how fast, next to everything it should be compared with, in the same run.

    .venv/bin/python benchmarks/placement.py [--seeds 5] [--repeat 9] [--only quality|speed] [--json] [--plots FOLDER]
        [--fabric '64 x 32 x 32'] [--store FILE]

Fabrics are written leaves x spines x hosts per leaf; all links have one rate, so that a leaf is oversubscribed by
hosts / spines. Quality: the fullest link as a multiple of what ideal packet spraying could do (bytes that leave or
enter a leaf over all its live links), and the gap to the bound that knows what does not divide. Speed: medians of CPU
milliseconds, "reference" being edge colouring as textbooks make it, in plain Python, in the same run. What the numbers
say is in docs/placement.md.

With --store every seed is kept in a file (a JSON document on each line) as soon as it is measured, and a run with the
same file goes on where the last one ended; `--seeds 0` then prints the tables of what is there. The file belongs to the
code that measured it, and other code refuses it.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from _placement_quality import Row, rows
from _placement_speed import SpeedRow, growth, speed
from _placement_store import Store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="problems for each setting with mixed sizes (default: 5)")
    parser.add_argument("--repeat", type=int, default=9, help="runs per median of time (default: 9)")
    parser.add_argument("--only", choices=("quality", "speed"), help="one half of it")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    parser.add_argument("--plots", type=Path, help="also draw the two plots of docs/placement.md into this folder")
    parser.add_argument(
        "--fabric",
        action="append",
        default=[],
        metavar="'L x S x H'",
        help="quality of this fabric only; may be repeated",
    )
    parser.add_argument("--store", type=Path, help="keep every measured seed in this file, and go on from it")
    arguments = parser.parse_args()
    try:
        store = Store(arguments.store)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    quality: list[Row] = []
    if arguments.only != "speed":
        for row in rows(arguments.seeds, arguments.fabric, store):
            quality.append(row)
            if not arguments.json:
                print(_quality_line(row, quality[:-1]), flush=True)
    times: list[SpeedRow] = []
    grown: list[SpeedRow] = []
    if arguments.only != "quality":
        times, grown = list(speed(max(arguments.repeat, 1))), list(growth(max(arguments.repeat, 1)))
        if not arguments.json:
            _print_speed("speed", times)
            _print_speed("growth", grown)
    if arguments.json:
        machine = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine()}
        found = {"quality": quality, "speed": times, "growth": grown}
        document = {"machine": machine, **{name: [asdict(row) for row in part] for name, part in found.items()}}
        json.dump(document, sys.stdout, indent=1)
        print()
    if arguments.plots:
        from _placement_plots import draw

        draw(arguments.plots, quality, grown)


def _quality_line(row: Row, before: Sequence[Row]) -> str:
    setting = (row.fabric, row.traffic, row.failed)
    head = ""
    if not before or (before[-1].fabric, before[-1].traffic, before[-1].failed) != setting:
        head = (
            f"\n{row.fabric}, {row.traffic}, {row.failed:.0%} of links failed, {row.flows} flows, {row.seeds} seeds\n"
        )
        head += f"  {'':38} {'QPs':>3}  {'to ideal (p99)':>16}  {'gap to bound (p99)':>20}  proven   split\n"
    gap = f"{row.gap_median:9.2%} ({row.gap_p99:7.2%})" if row.gap_median is not None else ""
    ideal = f"{row.to_ideal_median:6.2f} ({row.to_ideal_p99:6.2f})"
    proven = f"{row.proven:6.0%}" if row.gap_median is not None else ""
    split = f"{row.split_share:6.0%}" if row.split_share else ""
    pairs = row.queue_pairs or "-"
    return f"{head}  {row.method:38} {pairs:>3}  {ideal:>16}  {gap:>20}  {proven:>6}  {split:>6}"


def _print_speed(title: str, found: Sequence[SpeedRow]) -> None:
    print(f"\n{title:44} {'flows':>7} {'median':>10} {'limit':>9} {'reference':>11}  gap")
    for row in found:
        limit = f"{row.limit_ms:6.0f} ms" if row.limit_ms else ""
        reference = f"{row.reference_ms:8.1f} ms" if row.reference_ms is not None else ""
        proof = f"{row.gap:.2%}{' (proven)' if row.proven else ''}"
        print(f"{row.case:44} {row.flows:7} {row.median_ms:7.2f} ms {limit:>9} {reference:>11}  {proof}")


if __name__ == "__main__":
    main()
