"""SONiC's lab link tables (ansible/files/*_links.csv): one cable a line, bandwidth in Mbit/s.

It decides nothing about roles, which the table does not have; every device is a switch. A cable from a device to
itself is a "snake" of these labs, and is kept. Source: github.com/sonic-net/sonic-mgmt, docs/testbed (2026).
"""

import csv
import io
import re

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.formats.plan_builder import PlanBuilder
from controller.formats.rates import MAX_RATE_BPS

_NEEDED = ("StartDevice", "StartPort", "EndDevice", "EndPort")
_EXAMPLE = "begin with the line StartDevice,StartPort,EndDevice,EndPort,BandWidth"


def read(text: str, filename: str) -> CablingPlan:
    """The plan. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "sonic-links")
    # Null characters are refused by some versions of the reader and kept by others.
    rows = csv.reader(io.StringIO(text.replace("\0", "�"), newline=""))
    try:
        header = [cell.strip() for cell in next(rows, [])]
        missing = [column for column in _NEEDED if column not in header]
        if missing:
            builder.problem(1, f"the first line does not name {', '.join(missing)}", _EXAMPLE)
            return builder.plan("sonic")
        for row in rows:
            if any(cell.strip() for cell in row) and not row[0].lstrip().startswith("#"):
                cells = dict(zip(header, (cell.strip() for cell in row), strict=False))
                _cable(cells, rows.line_num, builder)
    except csv.Error as error:
        builder.problem(rows.line_num, f"not a table of comma-separated values: {error}", "check quotes and line ends")
    return builder.plan("sonic")


def _cable(cells: dict[str, str], line: int, builder: PlanBuilder) -> None:
    empty = [column for column in _NEEDED if not cells.get(column)]
    if empty:
        builder.problem(line, f"no {', '.join(empty)}", "fill it in, or remove the line")
        return
    a, b = CableEnd(cells["StartDevice"], cells["StartPort"]), CableEnd(cells["EndDevice"], cells["EndPort"])
    builder.cable(a, b, line, mbits(cells.get("BandWidth", ""), line, builder))


def mbits(text: str, line: int, builder: PlanBuilder) -> int | None:
    """Bit/s of a bandwidth in Mbit/s; empty means unknown."""
    if not text:
        return None
    if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) is None or not 0 < int(text) * 10**6 <= MAX_RATE_BPS:
        shown = text if len(text) <= 20 else text[:17] + "..."
        builder.problem(line, f'bandwidth "{shown}" is no whole number of Mbit/s', "write 100000 for 100 Gbit/s")
        return None
    return int(text) * 10**6
