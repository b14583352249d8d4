"""Whether the OpenFlow port is free, and who has it."""

import os
import socket

from apps.port_problem import port_problem


def test_a_free_port_is_no_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert port_problem("127.0.0.1", port) is None


def test_a_taken_port_names_its_process() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as server:
        port = server.getsockname()[1]
        problem = port_problem("127.0.0.1", port)
    assert problem is not None
    assert f"OpenFlow port {port} is taken by" in problem
    assert f"(pid {os.getpid()}, user " in problem


def test_an_address_of_another_machine_is_said() -> None:
    problem = port_problem("192.0.2.1", 6653)
    assert problem is not None
    assert problem.startswith("cannot listen on 192.0.2.1:6653")
