"""Where the controller is and how this agent is called: the environment, checked once.

It decides nothing about how the connection is kept; that is `link`'s work.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_SOUTHBOUND = "unix:/run/heddle/controller.sock"


class SettingsError(ValueError):
    """The environment says something that cannot be meant; the message names the variable and the cure."""


@dataclass(frozen=True, slots=True)
class SouthboundAddress:
    """`path` for a Unix socket, else `host` and `port`. `text` is what the engineer wrote."""

    text: str
    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def family(self) -> int:
        if self.path:
            return socket.AF_UNIX
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET

    @property
    def target(self) -> str | tuple[str, int]:
        """What `socket.connect` takes."""
        return self.path or (self.host, self.port)

    def __str__(self) -> str:
        return self.text


def parse_southbound(text: str) -> SouthboundAddress:
    """`unix:/path`, `tcp:host:port` or `tcp:[address]:port`. Raises SettingsError on anything else."""
    scheme, _, rest = text.partition(":")
    if scheme == "unix" and rest.startswith("/"):
        return SouthboundAddress(text, path=rest)
    host, _, port = rest.rpartition(":")
    if scheme == "tcp" and host and port.isdecimal() and 0 < int(port) < 65536:
        return SouthboundAddress(text, host=host.strip("[]"), port=int(port))
    raise SettingsError(
        f"HEDDLE_SOUTHBOUND={text!r} is not an address: write unix:/run/heddle/controller.sock or tcp:127.0.0.1:6699"
    )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    southbound: SouthboundAddress
    agent_id: str


def read_settings(environment: Mapping[str, str]) -> AgentSettings:
    """Reads HEDDLE_SOUTHBOUND and HEDDLE_AGENT_ID. Raises SettingsError."""
    agent_id = environment.get("HEDDLE_AGENT_ID") or f"{socket.gethostname()}/{os.getpid()}"
    return AgentSettings(parse_southbound(environment.get("HEDDLE_SOUTHBOUND") or DEFAULT_SOUTHBOUND), agent_id)
