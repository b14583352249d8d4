"""The wheel holds what runs, and it runs in fresh environments built without any cache, on every supported Python."""

import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from tests.unit.setup_tree import ROOT, clone, run

pytestmark = pytest.mark.slow
DEPLOY = ROOT / "deploy"
UV = Path(sys.executable).with_name("uv")
DEBIAN_MININET = Path("/usr/lib/python3/dist-packages/mininet")
STUBS = "heddle.v1.collective_pb2_grpc, heddle.southbound.v1.link_pb2"
IMPORTS = f"import controller, apps, heddle.southbound.framing, {STUBS}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a clone without stubs, with build isolation, as `uv build` does by default."""
    folder = tmp_path_factory.mktemp("wheel")
    run(UV, "build", "--wheel", "--no-cache", "--out-dir", folder / "dist", clone(folder / "clone"))
    [made] = (folder / "dist").glob("*.whl")
    return made


def test_wheel_holds_the_whole_program(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    protos = {path.relative_to(ROOT / "proto") for path in ROOT.glob("proto/heddle/**/*.proto")}
    stubs = {
        str(proto.with_name(proto.stem + end)) for proto in protos for end in ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
    }
    modules = {str(path.relative_to(ROOT)) for room in ("controller", "apps") for path in ROOT.glob(f"{room}/**/*.py")}
    assert (stubs | {"heddle_ryu_manager.py", "heddle_ryu_manager.pth"}) - names == set()
    # Modules that a colleague adds or removes while the wheel is being built are no finding.
    assert {name for name in modules - names if (ROOT / name).stat().st_mtime < wheel.stat().st_mtime - 60} == set()
    assert not any(name.startswith(("mininet/", "tests/", "deploy/")) for name in names)


def interpreter(version: str) -> str:
    """A Python of that version that really runs (a pyenv shim may only say that it will not). Skips without one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "/nowhere")).glob(f"versions/{version}.*/bin/python{version}")
    on_path = shutil.which(f"python{version}")
    candidates = [*([Path(on_path)] if on_path else []), *pyenv]
    for candidate in candidates:
        done = run(candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])", status=None)
        if done.stdout.strip() == version:
            return str(candidate)
    pytest.skip(f"no Python {version} runs on this machine")


def install(python: Path, wheel: Path, *, development: bool) -> None:
    """As the launcher does it, from the requirements file and nothing else; or, what somebody with only the wheel gets,
    whose own dependencies must then suffice (the file is a mere constraint, and no development package comes)."""
    command: list[str | Path] = [UV, "pip", "install", "--no-cache", "--python", python]
    command += ["--build-constraints", DEPLOY / "build-constraints.txt"]
    if development:
        run(*command, "--require-hashes", "--requirements", DEPLOY / "requirements.txt", cwd=python.parent)
        run(*command, "--no-deps", wheel, cwd=python.parent)
    else:
        run(*command, "--constraints", DEPLOY / "requirements.txt", wheel, cwd=python.parent)
    run(UV, "pip", "check", "--python", python, cwd=python.parent)


@pytest.mark.parametrize(("version", "development"), [("3.11", True), ("3.12", False), ("3.13", False)])
def test_fresh_environment(version: str, development: bool, wheel: Path, tmp_path: Path) -> None:
    run(UV, "venv", "--no-cache", "--python", interpreter(version), tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install(python, wheel, development=development)

    done = run(python.with_name("ryu-manager"), "--version", cwd=tmp_path)
    assert (done.stdout.split(), done.stderr) == (["ryu-manager", "4.34"], "")
    run(python, "-W", "error", "-c", IMPORTS, cwd=tmp_path)
    if DEBIAN_MININET.is_dir():
        site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
        (Path(site) / "mininet").symlink_to(DEBIAN_MININET)
        run(python, "-c", "import mininet.net, mininet.node", cwd=tmp_path)
