"""The import contracts of pyproject.toml bite: each forbidden import, added to a copy of the tree, is refused."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.unit.setup_tree import ROOT, run

# One small tree is enough: the contracts are what is tested, and the real tree is linted by `./heddle test`.
ROOMS = ["cli", "core", "fabric", "formats", "health", "jobs", "pipeline", "placement", "qos", "runtime", "simulation"]

# importing module, imported module: each alone must be reported.
FORBIDDEN = [
    ("controller.fabric", "controller.jobs"),
    ("controller.fabric", "socket"),
    ("controller.jobs", "controller.placement"),
    ("controller.jobs", "grpc"),
    ("controller.qos", "controller.pipeline"),
    ("controller.qos", "asyncio"),
    ("controller.placement", "controller.pipeline"),
    ("controller.placement", "random"),
    ("controller.health", "controller.core"),
    ("controller.health", "sqlite3"),
    ("controller.pipeline", "controller.core"),
    ("controller.pipeline", "threading"),
    ("controller.core", "controller.runtime"),
    ("controller.core", "controller.simulation"),
    ("controller.core", "controller.formats"),
    ("controller.core", "time"),
    ("controller.formats", "controller.pipeline"),
    ("controller.formats", "controller.qos"),
    ("controller.simulation", "controller.runtime"),
    ("controller.runtime", "controller.cli"),
    ("controller.runtime", "ryu"),
    ("controller.cli", "mininet"),
    ("controller.cli", "eventlet"),
    ("controller.cli", "apps"),
    ("apps", "controller.fabric"),
    ("apps", "controller.core"),
    ("apps", "grpc"),
]

ALLOWED = [
    ("controller/cli/added.py", "import controller.runtime, controller.simulation, controller.formats, asyncio"),
    ("controller/runtime/added.py", "import controller.core, controller.formats, asyncio, time, grpc"),
    ("controller/simulation/added.py", "import controller.core, controller.formats, random"),
    ("controller/core/added.py", "import controller.pipeline, controller.placement, controller.health"),
    ("controller/pipeline/added.py", "import controller.qos, controller.fabric"),
    ("controller/formats/added.py", "import controller.jobs, controller.fabric"),
    ("apps/ecmp.py", "import controller.formats.topology, controller.fabric.model, ryu"),
]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Every room, empty, under the project's contracts."""
    packages = ["controller", "apps", *(f"controller/{room}" for room in ROOMS)]
    for package in packages:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    for module in ("apps/fabric.py", "apps/ecmp.py", "controller/formats/topology.py", "controller/fabric/model.py"):
        (tmp_path / module).touch()
    shutil.copy2(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path, *, status: int) -> str:
    # The copy comes first on the path, or the installed tree would be linted in its place.
    linter = Path(sys.executable).with_name("lint-imports")
    return run(linter, "--no-cache", cwd=house, status=status, env={"PYTHONPATH": str(house)}).stdout


def add(house: Path, file: str, text: str) -> None:
    target = house / file
    target.parent.mkdir(exist_ok=True)
    target.write_text(text + "\n")


def test_every_forbidden_import_is_reported(house: Path) -> None:
    """Within a function too: a late import is an arrow all the same."""
    added = [(f"{room}.added_{number}", target) for number, (room, target) in enumerate(FORBIDDEN)]
    for number, (module, target) in enumerate(added):
        text = f"def late() -> None:\n    import {target}" if number % 2 else f"import {target}"
        add(house, module.replace(".", "/") + ".py", text)
    said = lint(house, status=1)
    assert [f"{module} -> {target}" for module, target in added if f"{module} -> {target} " not in said] == []


def test_the_baseline_may_read_topologies_but_not_think(house: Path) -> None:
    add(house, "apps/ecmp.py", "import controller.core")
    assert "apps.ecmp -> controller.core " in lint(house, status=1)


def test_the_arrows_themselves_are_free(house: Path) -> None:
    for file, text in ALLOWED:
        add(house, file, text)
    assert " 0 broken" in lint(house, status=0)


def test_a_new_room_must_be_given_its_storey(house: Path) -> None:
    add(house, "controller/weather/__init__.py", "")
    assert "controller.weather" in lint(house, status=1)


def test_contracts_name_every_room() -> None:
    rooms = {path.parent.name for path in ROOT.glob("controller/*/__init__.py")}
    assert rooms == set(ROOMS)
