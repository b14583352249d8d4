"""Generates the protobuf stubs beside their .proto files, and decides nothing about what they contain.

`python proto/generate.py` writes them; `--check` writes nothing and fails when one is missing, left over, or not what
the .proto files say. They are made at set-up and when a wheel is built, and are not committed.
"""

import os
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
STUB_PATTERNS = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")


def generate() -> dict[Path, bytes]:
    """Every stub's content by its path below ROOT. Raises RuntimeError when protoc refuses a file (it prints why)."""
    sources = sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("heddle/**/*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    with tempfile.TemporaryDirectory() as out:
        arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}"]
        arguments += [f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}"]
        if protoc.main([*arguments, *sources]) != 0:
            raise RuntimeError("protoc refused the .proto files; its message is above")
        return {p.relative_to(out): p.read_bytes() for p in Path(out).rglob("*") if p.is_file()}


def present() -> set[Path]:
    """The stubs that lie beside the .proto files now, as paths below ROOT."""
    return {p.relative_to(ROOT) for pattern in STUB_PATTERNS for p in ROOT.glob(f"heddle/**/{pattern}")}


def write() -> None:
    """Brings the stubs up to date. A file is replaced in one move and only when it differs, because programs that run
    from this tree may be importing it at this moment."""
    wanted = generate()
    for name in present() - wanted.keys():
        (ROOT / name).unlink(missing_ok=True)
    for name, content in wanted.items():
        target = ROOT / name
        if not target.is_file() or target.read_bytes() != content:
            fresh = target.with_name(f".{target.name}.{os.getpid()}")
            fresh.write_bytes(content)
            fresh.replace(target)


def differences() -> list[str]:
    """Paths below ROOT of the stubs that are missing, left over or stale, sorted."""
    wanted = generate()
    stale = {name for name in wanted.keys() & present() if (ROOT / name).read_bytes() != wanted[name]}
    return sorted(str(name) for name in stale | (wanted.keys() ^ present()))


def main() -> int:
    """0, or 1 when `--check` found a difference."""
    if "--check" not in sys.argv[1:]:
        write()
        return 0
    wrong = differences()
    for name in wrong:
        print(f"proto/{name} is not what the .proto files say: run python proto/generate.py", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
