"""The benchmark of a large fabric measures what it says, and a middling fabric loses no link."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_no_link_is_lost_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    import discovery_scale

    found = discovery_scale.measure(16, 4, phases=1, phase_s=6, hosts_per_leaf=8)
    assert (found["found"], found["lost_links"], found["losses"]) == (64, 0, 0)
    (phase,) = found["phases"]
    # Every end of a cable is heard once in a period, less those that chance takes.
    assert 0.9 * 128 < phase["beacons_per_s"] * found["beacon_period_s"] < 1.2 * 128
