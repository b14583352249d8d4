"""Generates the protobuf stubs beside their .proto files.

`python proto/generate.py` writes them; `--check` writes nothing and fails when they are missing or not what the
.proto files say. They are made at set-up and are not committed.
"""

import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent


def generate(out: Path) -> None:
    """Writes all stubs below `out`. Raises RuntimeError when protoc refuses a file (it prints why)."""
    sources = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("heddle/**/*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}"]
    arguments += [f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}"]
    if protoc.main([*arguments, *sources]) != 0:
        raise RuntimeError("protoc refused the .proto files; its message is above")


def differences() -> list[str]:
    """Stubs that are missing or stale."""
    with tempfile.TemporaryDirectory() as fresh:
        generate(Path(fresh))
        made = sorted(p for p in Path(fresh).rglob("*") if p.is_file())
        return [
            name
            for path in made
            if not (ROOT / (name := str(path.relative_to(fresh)))).is_file()
            or (ROOT / name).read_bytes() != path.read_bytes()
        ]


def main() -> int:
    if "--check" in sys.argv[1:]:
        stale = differences()
        for name in stale:
            print(f"proto/{name} is missing or stale: run python proto/generate.py", file=sys.stderr)
        return 1 if stale else 0
    generate(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
