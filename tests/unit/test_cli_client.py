"""What the controller's failures become."""

import socket
import time

import grpc
import pytest
from cli_fakes import Fake, free_port, serving

from controller.cli.client import connect
from controller.cli.errors import CommandError, ExitCode
from controller.cli.main import invoke

UNKNOWN = ["ranks[1]: no host 'gpu-9' on this fabric", "ranks[3]: no host 'gpu-11' on this fabric"]


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("code", [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT])
def test_wrong_input_lists_every_problem_and_exits_2(
    code: grpc.StatusCode, rich: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Fake(refusal=(code, UNKNOWN), rich=rich)) as fake:
        assert invoke(["plan", "llama", "--controller", fake.address]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"heddle: {problem}" for problem in UNKNOWN]


@pytest.mark.parametrize("code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.FAILED_PRECONDITION])
def test_what_the_controller_could_not_do_exits_1(code: grpc.StatusCode, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(refusal=(code, ["leaf1 has no room for 12 rules"]))) as fake:
        assert invoke(["plan", "llama", "--controller", fake.address]) == 1
    assert capsys.readouterr().err == f"heddle: leaf1 has no room for 12 rules ({code.name})\n"


@pytest.fixture
def unused_port() -> int:
    return free_port()


def test_a_controller_that_says_unavailable_is_there() -> None:
    refusal = (grpc.StatusCode.UNAVAILABLE, ["this is the standby; the leader is 10.0.0.2"])
    with serving(Fake(refusal=refusal)) as fake, connect(fake.address) as controller:
        with pytest.raises(CommandError, match=r"the leader is 10.0.0.2 \(UNAVAILABLE\)") as refused:
            controller.topology()
        assert refused.value.exit_code is ExitCode.FAILED


def test_a_controller_that_stops_between_two_calls_is_gone() -> None:
    with serving(Fake()) as fake, connect(fake.address) as controller:
        controller.topology()
        fake.stop()
        with pytest.raises(CommandError, match="broke: is it still running") as gone:
            controller.topology()
    assert gone.value.exit_code is ExitCode.NO_CONTROLLER


def test_a_listener_that_does_not_speak_grpc_is_no_controller() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        with pytest.raises(CommandError, match="no controller answers"), connect(_address(silent), timeout_s=0.5):
            pass
        assert time.monotonic() - start < 10


def test_another_grpc_server_is_told_apart() -> None:
    from concurrent.futures import ThreadPoolExecutor

    server = grpc.server(ThreadPoolExecutor(max_workers=1))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with (
            connect(address) as controller,
            pytest.raises(CommandError, match="is no Heddle controller of this version"),
        ):
            controller.topology()
    finally:
        server.stop(None).wait()


def test_a_web_proxy_in_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch, unused_port: int) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{unused_port}")
    with serving(Fake()) as fake, connect(fake.address) as controller:
        assert controller.topology().revision == 7


def test_answers_larger_than_grpcs_default_limit_arrive() -> None:
    from cli_fakes import plan

    with serving(Fake(plans={"large": plan("large", flows=40_000)})) as fake, connect(fake.address) as controller:
        answer = controller.plans("large")
    assert answer.ByteSize() > 4 * 1024 * 1024
    assert len(answer.plans[0].flows) == 40_000


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"
