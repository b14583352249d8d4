"""Brings a fabric up in Mininet and keeps it up: `python mininet/lab.py topologies/leafspine-4x4.yaml`.

It decides what the user sees and when the lab ends; the building is `lab_fabric`'s. The lab lives in a network
namespace of its own and leaves nothing behind, whichever way it ends.
"""

from __future__ import annotations

import ipaddress
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, NoReturn

# The checkout itself, when Heddle is not installed. Appended, so that nothing there hides an installed package.
sys.path.append(str(Path(__file__).resolve().parent.parent))

import typer
from lab_fabric import ROOT_END, FabricLab
from lab_namespace import LabError, die_with_parent, stop_process
from rich.console import Console

from controller.formats.problems import FileFormatError
from controller.formats.topology_file import load

_OPENFLOW_PORT = 6653
_ANNOUNCE_EVERY_S = 1.0
_console = Console(highlight=False, soft_wrap=True)
_errors = Console(stderr=True, highlight=False, soft_wrap=True)


def controller_target(text: str) -> str:
    """An Open vSwitch target for what the user wrote: [tcp:]ADDRESS[:PORT], or only the port.

    A loopback address means the machine's own end of the management network, since the lab's loopback is another one.
    Raises LabError when it is not understood.
    """
    found = re.fullmatch(r"(?:tcp:)?([0-9.]*\.[0-9.]*|localhost)(?::(\d+))?|(?:tcp:)?:?(?P<port>\d+)", text)
    if not found:
        raise LabError(f"--controller {text}: expected tcp:ADDRESS:PORT with an IPv4 address, or `none`")
    address, port = found[1] or "127.0.0.1", int(found["port"] or found[2] or _OPENFLOW_PORT)
    if not 0 < port < 65536:
        raise LabError(f"--controller {text}: port {port} is outside 1 to 65535")
    try:
        loopback = address == "localhost" or ipaddress.IPv4Address(address).is_loopback
    except ipaddress.AddressValueError:
        raise LabError(f"--controller {text}: {address} is not an IPv4 address") from None
    return f"tcp:{ROOT_END if loopback else address}:{port}"


def main(
    topology: Annotated[Path, typer.Argument(help="Topology file (YAML), as in topologies/.")],
    controller: Annotated[
        str, typer.Option(help="OpenFlow target on this machine, or `none`.")
    ] = f"tcp:127.0.0.1:{_OPENFLOW_PORT}",
    in_namespace: Annotated[
        bool, typer.Option("--in-namespace", help="The controller runs inside the lab's namespace.")
    ] = False,
    controller_command: Annotated[
        str, typer.Option(help="Program to start in the lab's namespace, with --in-namespace.")
    ] = "",
    seconds: Annotated[float | None, typer.Option("--for", help="End after so many seconds.")] = None,
    cli: Annotated[
        bool | None, typer.Option("--cli/--no-cli", help="Mininet's prompt; default: on a terminal.")
    ] = None,
    name: Annotated[str, typer.Option(help="The lab's name, of /run/heddle/NAME; default: the fabric's.")] = "",
    wait: Annotated[float, typer.Option(help="Seconds to wait for the controller before going on.")] = 30.0,
    mtu: Annotated[int, typer.Option(min=576, max=9200, help="Of every interface, bytes.")] = 1500,
) -> None:
    """Builds the fabric, points its switches to a controller, and keeps it up until told to stop."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        plan = load(topology)
        targets = _targets(controller, in_namespace=in_namespace)
        with _console.status("building") as status:
            lab = FabricLab(plan, controllers=targets, name=name or None, mtu=mtu, progress=status.update)
            lab.__enter__()
        try:
            _keep(lab, wait, seconds, controller_command if in_namespace else "", cli=cli)
        finally:
            # What follows takes a moment, and a second Ctrl-C in it would leave it half done.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            lab.__exit__(None, None, None)
            _console.print(f"{lab.name} is down; nothing is left of it.")
    except (LabError, FileFormatError) as error:
        _errors.print(f"heddle fabric: {error}", markup=False)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _targets(controller: str, *, in_namespace: bool) -> tuple[str, ...]:
    if controller == "none":
        return ()
    target = controller_target(controller)
    return (target.replace(ROOT_END, "127.0.0.1"),) if in_namespace else (target,)


def _end(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _keep(lab: FabricLab, wait_s: float, seconds: float | None, command: str, *, cli: bool | None) -> None:
    started = time.monotonic()
    child = None
    if command:
        child = subprocess.Popen(shlex.split(command), preexec_fn=die_with_parent, stdin=subprocess.DEVNULL)
    try:
        _describe(lab)
        if lab.controllers:
            _wait_for_controller(lab, wait_s)
        if cli or (cli is None and seconds is None and sys.stdin.isatty()):
            # Imported late: Mininet's prompt wants readline.
            from lab_cli import LabCli

            LabCli(lab)
        else:
            _console.print("up; Ctrl-C or SIGTERM ends it" if seconds is None else f"up for {seconds:g} s")
            _sleep_until(None if seconds is None else started + seconds)
    finally:
        if child is not None:
            stop_process(child)


def _sleep_until(deadline_s: float | None) -> None:
    while deadline_s is None or time.monotonic() < deadline_s:
        time.sleep(0.2 if deadline_s is None else min(0.2, max(0.0, deadline_s - time.monotonic())))


def _describe(lab: FabricLab) -> None:
    plan = lab.plan
    _console.print(
        f"{lab.name}: {len(plan.switches)} switches, {len(plan.links)} cables, {len(plan.hosts)} hosts, "
        f"queues of {lab.queue_packets} packets",
        markup=False,
    )
    _console.print(f"  OpenFlow   {', '.join(lab.controllers) or 'no controller'}", markup=False)
    if lab.management is not None:
        _console.print(f"  management {lab.management.root_address} here, {lab.management.lab_address} in the lab")
    _console.print(f"  OVSDB      unix:{lab.directory}/db.sock")
    _console.print(f"  namespace  nsenter --net=/proc/{lab.ovs.switch_pid}/ns/net")
    first = plan.hosts[0] if plan.hosts else None
    if first is not None:
        _console.print(f"  a host     mnexec -a {lab.pid_of(first.name)} COMMAND  ({first.name}, {first.ipv4})")


def _wait_for_controller(lab: FabricLab, wait_s: float) -> None:
    """Returns when the switches are connected or the user has waited enough; hosts go on announcing themselves."""
    connected = threading.Event()
    threading.Thread(target=_announce, args=(lab, connected), name="announce-hosts", daemon=True).start()
    with _console.status(f"waiting for a controller at {', '.join(lab.controllers)}"):
        connected.wait(wait_s)
    if connected.is_set():
        _console.print("every switch has a controller; the hosts have announced themselves")
    else:
        _console.print(
            "no controller on every switch yet (`ryu-manager apps/fabric.py` starts one); the switches keep trying"
        )


def _announce(lab: FabricLab, connected: threading.Event) -> None:
    """The hosts announce themselves every second until the switches are known to be connected, and then once more.

    Open vSwitch's database says up to five seconds late that a switch is connected: to wait for it with the first
    announcement would keep hosts unknown for as long.
    """
    while not connected.is_set():
        try:
            lab.announce_hosts(times=1)
            lab.wait_connected(_ANNOUNCE_EVERY_S)
            lab.announce_hosts()
        except (LabError, OSError):
            # Not connected yet, or the lab is being taken down.
            if lab.closed:
                return
            continue
        connected.set()


if __name__ == "__main__":
    typer.run(main)
