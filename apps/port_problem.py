"""Says what keeps this process from listening for switches, before Ryu goes on without a word. It only looks."""

import errno
import socket

from heddle.southbound.port_owner import port_owner


def port_problem(host: str, port: int) -> str | None:
    """One sentence about what keeps this process from listening on `host`:`port`, or None.

    Without SO_REUSEPORT on purpose: eventlet sets it, and two controllers that both do would share the switches
    between them at random, without a word.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections that are still ending (TIME_WAIT) do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE:
                return f"cannot listen on {host}:{port} for switches: {problem.strerror}"
        else:
            return None
    owner = port_owner(port) or "a process that this user may not see"
    return (
        f"OpenFlow port {port} is taken by {owner}: stop it, "
        f"or give this one another port with --ofp-tcp-listen-port (and tell the switches)"
    )
