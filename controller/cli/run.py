"""`heddle run`: checks what can be checked beforehand, then starts the fabric: the Ryu agent, whose child the
controller is. How the processes are kept and stopped is decided in `supervise`.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from heddle.southbound.port_owner import port_owner

from controller.cli import output
from controller.cli.errors import bad_input
from controller.cli.options import ControllerOption, JsonOption, address
from controller.cli.repository import program, root
from controller.cli.supervise import Endpoints, run_until_stopped
from controller.runtime.addresses import Address, TcpAddress

if TYPE_CHECKING:
    from controller.runtime.settings import Settings

OPENFLOW_PORT = 6653
_PROBE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class FabricSettings:
    """What `heddle run` was told; None leaves it to the environment, and then to the controller's own default."""

    port: int
    grpc: str
    topology: Path | None = None
    southbound: str | None = None
    ovsdb: str | None = None
    qos: bool | None = None

    @property
    def of_the_controller(self) -> list[str]:
        """The options given that only a controller heeds which is started now."""
        given = {"--topology": self.topology, "--ovsdb": self.ovsdb, "--qos/--no-qos": self.qos}
        return [option for option, value in given.items() if value is not None]

    def command(self) -> list[str]:
        return [program("ryu-manager"), "--ofp-tcp-listen-port", str(self.port), "apps/fabric.py"]

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """`inherited` with the options on top; paths are absolute, because the agent runs in the repository's root."""
        chosen = {
            "HEDDLE_TOPOLOGY": str(self.topology.absolute()) if self.topology is not None else None,
            "HEDDLE_SOUTHBOUND": self.southbound,
            "HEDDLE_GRPC": self.grpc,
            "HEDDLE_OVSDB": self.ovsdb,
            "HEDDLE_QOS": None if self.qos is None else ("on" if self.qos else "off"),
        }
        return {**inherited, **{name: value for name, value in chosen.items() if value is not None}}


def run(
    ctx: typer.Context,
    topology: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Topology file: names, rates, expected hosts.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="OpenFlow port for the switches.")] = OPENFLOW_PORT,
    southbound: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Socket between agent and controller: unix:/path or tcp:host:port."),
    ] = None,
    ovsdb: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Open vSwitch databases that hold the queues: auto, or unix:/path and tcp:host:port.",
        ),
    ] = None,
    qos: Annotated[
        bool | None, typer.Option("--qos/--no-qos", help="Classify traffic into queues.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Start the controller and its OpenFlow agent; Ctrl-C stops both. --controller says where gRPC listens."""
    settings = FabricSettings(port, address(ctx, controller), topology, southbound, ovsdb, qos)
    environment = settings.environment(os.environ)
    _check(settings, environment)
    endpoints = Endpoints(settings.port, settings.grpc)
    raise typer.Exit(run_until_stopped(settings.command(), root(), environment, endpoints, as_json=as_json))


def _check(settings: FabricSettings, environment: Mapping[str, str]) -> None:
    """Everything that would make the start fail, at once. CommandError lists it."""
    from controller.runtime.settings import SettingsError, read_settings

    problems = _port_problems(settings.port, "--port")
    try:
        controller: Settings | None = read_settings(environment, {})
    except SettingsError as error:
        controller, problems = None, [*error.problems, *problems]
    if controller is not None:
        if controller.topology:
            # The path as it was typed reads better than the absolute one that the agent gets.
            problems = [*_topology_problems(settings.topology or Path(controller.topology)), *problems]
        if answers(controller.southbound):
            problems += _join(settings, controller)
        elif isinstance(controller.grpc, TcpAddress):
            problems += _port_problems(controller.grpc.port, "--controller")
    if problems:
        raise bad_input([*problems, "nothing was started"])
    if controller is not None and answers(controller.southbound):
        output.say(f"a controller runs already at {controller.southbound}: this agent joins it, with its settings")
    elif controller is not None and not controller.topology:
        output.say("no --topology: names, rates and roles come from the switches alone")


def _join(settings: FabricSettings, controller: "Settings") -> list[str]:
    """What is wrong with a second agent for the controller that runs already; its ports are rightly taken."""
    running = f"a controller runs already at {controller.southbound}"
    cure = "stop it, or start one of its own for this agent with --southbound, --controller and HEDDLE_STATE"
    problems = []
    if settings.of_the_controller:
        options = ", ".join(settings.of_the_controller)
        problems.append(f"{running} and would not heed {options}: leave that out to join it, {cure}")
    if not answers(controller.grpc):
        problems.append(f"{running}, but not with gRPC on {settings.grpc}: say where with --controller, {cure}")
    return problems


def _topology_problems(file: Path) -> list[str]:
    from controller.formats.problems import FileFormatError
    from controller.formats.topology_file import load

    try:
        load(file)
    except FileFormatError as error:
        return str(error).splitlines()
    return []


def _port_problems(port: int, option: str) -> list[str]:
    owner = port_owner(port)
    return [] if owner is None else [f"port {port} is taken by {owner}: stop it, or choose another with {option}"]


def answers(address: Address) -> bool:
    """Whether somebody accepts connections there."""
    try:
        if isinstance(address, TcpAddress):
            socket.create_connection((address.host, address.port), _PROBE_TIMEOUT_S).close()
        else:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(_PROBE_TIMEOUT_S)
                probe.connect(address.path)
    except OSError:
        return False
    return True
