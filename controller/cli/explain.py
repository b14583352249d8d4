"""`heddle explain flow|link|job`: why something is as it is."""

from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli import output
from controller.cli.client import connect
from controller.cli.options import ControllerOption, JsonOption, address

if TYPE_CHECKING:
    from heddle.v1 import trace_pb2

# More flows than fit a screen are counted instead of listed, unless asked for.
FLOWS_SHOWN = 20

explain_app = typer.Typer(no_args_is_help=True, help="Say why something is as it is.")


@explain_app.command("flow")
def explain_flow(
    ctx: typer.Context,
    src: Annotated[str, typer.Argument(help="Sending host: name or address.", show_default=False)],
    dst: Annotated[str, typer.Argument(help="Receiving host: name or address.", show_default=False)],
    udp_port: Annotated[int, typer.Option(min=0, max=65535, help="UDP source port; 0: any.")] = 0,
    dscp: Annotated[int, typer.Option(min=0, max=63, help="DSCP with which the host sends.")] = 0,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Say why packets from one host to another take the path they take, and which rules they meet on it."""
    with connect(address(ctx, controller)) as connected:
        answer = connected.explain_flow(src, dst, udp_port, dscp)
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.tables import explained_view
    from controller.cli.trace_view import trace_view

    out = output.stdout()
    if answer.flows:
        out.print(explained_view(answer.flows))
    else:
        out.print(_unannounced(src, dst, answer.trace), markup=False)
    out.print()
    out.print(trace_view(answer.trace))


def _unannounced(src: str, dst: str, trace: "trace_pb2.PacketTrace") -> str:
    """Rules of a job may cover a pair that it did not announce: acknowledgements go back along their data's path."""
    nothing = f"nothing is announced from {src} to {dst}"
    steering = [table.rule for switch in trace.switches for table in switch.tables if table.rule.kind == "steer"]
    if not steering:
        return f"{nothing}: routing decides"
    job = f" of job {steering[0].job_id}" if steering[0].job_id else ""
    return f"{nothing}, but a rule{job} steers it, as it does the acknowledgements of what is announced"


@explain_app.command("link")
def explain_link(
    ctx: typer.Context,
    a: Annotated[str, typer.Argument(help="Switch at one end: name or datapath id.", show_default=False)],
    b: Annotated[str, typer.Argument(help="Switch at the other end.", show_default=False)],
    show_all: Annotated[bool, typer.Option("--all", help=f"Every flow, not only the {FLOWS_SHOWN} largest.")] = False,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Say what is on the links between two switches: rates, placed flows, and what bounds their load."""
    with connect(address(ctx, controller)) as connected:
        answer = connected.explain_link(a, b)
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.explain_view import link_view

    output.stdout().print(link_view(answer, limit=None if show_all else FLOWS_SHOWN))


@explain_app.command("job")
def explain_job(
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(help="Job id.", show_default=False)],
    show_all: Annotated[bool, typer.Option("--all", help=f"Every unplaced flow, not only {FLOWS_SHOWN}.")] = False,
    as_json: JsonOption = False,
    controller: ControllerOption = None,
) -> None:
    """Say what a job's certificate means: the fullest links, what bounds them, and which flows have no path."""
    with connect(address(ctx, controller)) as connected:
        answer = connected.explain_job(job)
    if as_json:
        output.print_json(output.as_plain(answer))
        return
    from controller.cli.explain_view import job_view

    output.stdout().print(job_view(answer, limit=None if show_all else FLOWS_SHOWN))
