"""What the controller is told at its start: environment, overridden by flags, checked as a whole.

Only the form is checked here. Whether an address is free, or a file can be read, shows when it is used.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from controller.runtime.addresses import Address, TcpAddress, parse_address
from controller.runtime.logs import LogFormat

AUTO = "auto"
NO_STATE = "none"


class SettingsError(Exception):
    """`problems` lists everything that is wrong, each with the variable's name and the cure."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _address(value: Any) -> Any:
    return parse_address(value) if isinstance(value, str) else value


def _endpoints(value: Any) -> Any:
    """`auto`, or endpoints as ovs-vsctl writes them, separated by commas."""
    if not isinstance(value, str) or value == AUTO:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    wrong = [part for part in parts if not part.startswith(("unix:", "tcp:"))]
    if wrong or not parts:
        raise ValueError(
            f"{', '.join(wrong) or 'an empty list'}: write auto, or unix:/path and tcp:host:port with commas"
        )
    return tuple(parts)


def _switch(value: Any) -> Any:
    """Exactly on or off: "true" and "1" would make people try "yes" next."""
    if value not in ("on", "off"):
        raise ValueError(f"{value!r} is neither on nor off")
    return value == "on"


def _file(value: Any) -> Any:
    return value or None


def _state(value: Any) -> Any:
    """None for `none`. A relative path would be another file in every folder the controller is started from."""
    if value == NO_STATE:
        return None
    if not str(value).startswith("/"):
        raise ValueError(f"{value!r}: write an absolute path such as /var/lib/heddle/heddle.db, or none")
    return value


class Settings(BaseModel):
    """The aliases are the environment variables."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    southbound: Annotated[Address, BeforeValidator(_address)] = Field(alias="HEDDLE_SOUTHBOUND")
    grpc: Annotated[Address, BeforeValidator(_address)] = Field(alias="HEDDLE_GRPC")
    topology: Annotated[str | None, BeforeValidator(_file)] = Field(alias="HEDDLE_TOPOLOGY")
    ovsdb: Annotated[Literal["auto"] | tuple[str, ...], BeforeValidator(_endpoints)] = Field(alias="HEDDLE_OVSDB")
    qos: Annotated[bool, BeforeValidator(_switch)] = Field(alias="HEDDLE_QOS")
    state: Annotated[str | None, BeforeValidator(_state)] = Field(alias="HEDDLE_STATE")
    log: LogFormat = Field(alias="HEDDLE_LOG")
    log_level: Literal["debug", "info", "warning", "error"] = Field(alias="HEDDLE_LOG_LEVEL")

    def open_to_the_network(self) -> list[tuple[str, TcpAddress]]:
        """Listeners that others than this machine can reach. Neither asks who is calling."""
        listeners = (("HEDDLE_SOUTHBOUND", self.southbound), ("HEDDLE_GRPC", self.grpc))
        return [(name, a) for name, a in listeners if isinstance(a, TcpAddress) and not a.is_loopback]


DEFAULTS = {
    "HEDDLE_SOUTHBOUND": "unix:/run/heddle/controller.sock",
    "HEDDLE_GRPC": "127.0.0.1:50051",
    "HEDDLE_TOPOLOGY": "",
    "HEDDLE_OVSDB": AUTO,
    "HEDDLE_QOS": "on",
    "HEDDLE_STATE": "/var/lib/heddle/heddle.db",
    "HEDDLE_LOG": "console",
    "HEDDLE_LOG_LEVEL": "info",
}


def read_settings(environment: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    """Settings from the environment; `flags`, by variable name, go before. Raises SettingsError.

    A variable that is set to nothing counts as not set, as in systemd's environment files.
    """
    given = {name: flags.get(name) or environment.get(name) or default for name, default in DEFAULTS.items()}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        raise SettingsError([_sentence(fault) for fault in error.errors()]) from error


def _sentence(fault: Any) -> str:
    name = fault["loc"][0]
    text = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else f"{fault['input']!r}: {fault['msg']}"
    return f"{name}: {text}"
