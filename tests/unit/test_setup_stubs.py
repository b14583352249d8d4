"""proto/generate.py notices every way in which stubs can differ from the .proto files, and mends it."""

import sys
from pathlib import Path

import pytest

from tests.unit.setup_tree import clone, run


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clone with its stubs made."""
    made = clone(tmp_path / "clone")
    run(sys.executable, made / "proto" / "generate.py")
    return made


def check(tree: Path, status: int) -> str:
    return run(sys.executable, tree / "proto" / "generate.py", "--check", status=status).stderr


def stubs(tree: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (tree / "proto" / "heddle").rglob("*_pb2*")}


def test_fresh_stubs_pass_and_are_not_written_again(tree: Path) -> None:
    before = stubs(tree)
    assert check(tree, 0) == ""
    run(sys.executable, tree / "proto" / "generate.py")
    assert stubs(tree) == before, "a program may be importing them"


def test_missing_stale_and_left_over_stubs_are_named_and_mended(tree: Path) -> None:
    folder = tree / "proto" / "heddle" / "v1"
    (folder / "fabric_pb2.pyi").unlink()
    (folder / "collective_pb2.py").write_text("")
    (folder / "gone_pb2_grpc.py").write_text("")
    said = check(tree, 1)
    assert [line.split(" ")[0] for line in said.splitlines()] == [
        "proto/heddle/v1/collective_pb2.py",
        "proto/heddle/v1/fabric_pb2.pyi",
        "proto/heddle/v1/gone_pb2_grpc.py",
    ]
    run(sys.executable, tree / "proto" / "generate.py")
    assert check(tree, 0) == ""


def test_a_changed_message_makes_its_stubs_stale(tree: Path) -> None:
    proto = tree / "proto" / "heddle" / "v1" / "fabric.proto"
    proto.write_text(proto.read_text() + "\nmessage Added {}\n")
    assert "proto/heddle/v1/fabric_pb2.py" in check(tree, 1)


def test_a_broken_proto_leaves_the_stubs_alone(tree: Path) -> None:
    before = stubs(tree)
    proto = tree / "proto" / "heddle" / "v1" / "fabric.proto"
    proto.write_text("message {")
    said = run(sys.executable, tree / "proto" / "generate.py", status=1).stderr
    assert "fabric.proto:1" in said
    assert stubs(tree) == before
