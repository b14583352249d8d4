"""Coverage-guided fuzzing of the readers of cabling plans, for a bounded time.

Not part of the tests: Hypothesis does the same blindly there. Needs atheris (`uv pip install atheris`):
`python tests/fuzz/plan_readers.py --seconds 60`. A reader that raises anything but its own error, or whose error lacks
a line's cure, ends the run with the input on standard error; exit code 0 means that none did.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed: uv pip install atheris")

with atheris.instrument_imports(include=["controller.formats", "controller.fabric", "hostlist"]):
    from controller.formats.plan_files import Format, load_text
    from controller.formats.problems import FileFormatError
from tests.property.plan_samples import SAMPLES  # noqa: E402 - what is fuzzed is imported under instrumentation first

_FORMATS = [*Format, None]
# libFuzzer's own words may be longer than this, and then nothing new comes of them.
_MAX_BYTES = 4096


def one_input(data: bytes) -> None:
    """The first byte chooses the format, or has it told from the content."""
    if not data:
        return
    form = _FORMATS[data[0] % len(_FORMATS)]
    try:
        load_text(data[1:].decode("utf-8", errors="surrogateescape"), "plan", form)
    except FileFormatError as error:
        if not all(problem.what and problem.cure for problem in error.problems):
            raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="how long to fuzz (default: 60)")
    parser.add_argument("--corpus", type=Path, help="where inputs that found something new are kept")
    options = parser.parse_args()
    if options.corpus is None:
        import tempfile

        options.corpus = Path(tempfile.mkdtemp(prefix="heddle-fuzz-"))
    options.corpus.mkdir(parents=True, exist_ok=True)
    for number, (form, text) in enumerate(SAMPLES.items()):
        first = bytes([list(Format).index(form)])
        (options.corpus / f"sample-{number}").write_bytes(first + text.encode())
    limits = [f"-max_total_time={options.seconds}", f"-max_len={_MAX_BYTES}", "-timeout=20"]
    atheris.Setup([sys.argv[0], str(options.corpus), *limits], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
