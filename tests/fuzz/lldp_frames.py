"""Coverage-guided fuzzing of what reads LLDP, for a bounded time.

Not part of the tests: Hypothesis does the same blindly there. Needs atheris (`uv pip install atheris`):
`python tests/fuzz/lldp_frames.py --seconds 60`. A frame that raises, is believed to be a beacon without the key, or is
read as what cannot be shown ends the run with the input on standard error; exit code 0 means that none did.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "unit")]

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: uv pip install atheris")

with atheris.instrument_imports(include=["controller.fabric"]):
    from controller.fabric import beacon
    from controller.fabric.lldp import Neighbour
from lldp_frames import nic, switch  # noqa: E402 - what is fuzzed is imported under instrumentation first

_KEY = bytes(range(32))
_SAMPLES = (nic((4, b"ConnectX-4 Lx")), switch(), nic((8, b"\x05\x01\x0a\x00\x00\x01\x02\x00\x00\x00\x01\x00"), vlan=5))
# The largest Ethernet frame that is no jumbo.
_MAX_BYTES = 1518


def one_input(data: bytes) -> None:
    found = beacon.decode(data, _KEY)
    if isinstance(found, beacon.Beacon):
        raise AssertionError(f"a beacon without the key: {found}")
    if isinstance(found, Neighbour) and not (str(found).isprintable() and found.chassis_id and found.port_id):
        raise AssertionError(f"not fit to be shown: {found!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long to fuzz (default: 60)")
    parser.add_argument("--corpus", type=Path, help="where inputs that found something new are kept")
    options = parser.parse_args()
    corpus = options.corpus or Path(tempfile.mkdtemp(prefix="heddle-fuzz-"))
    corpus.mkdir(parents=True, exist_ok=True)
    for number, frame in enumerate(_SAMPLES):
        (corpus / f"sample-{number}").write_bytes(frame)
    limits = [f"-max_total_time={options.seconds}", f"-max_len={_MAX_BYTES}", "-timeout=20"]
    atheris.Setup([sys.argv[0], str(corpus), *limits], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
