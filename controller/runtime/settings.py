"""What the controller is told at its start: environment, overridden by flags, checked as a whole.

Only the form is checked here. Whether an address is free, or a file can be read, shows when it is used.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from controller.health.bfd import BfdSettings
from controller.pipeline.foreign import CookieMask
from controller.qos.classes import TrafficClass
from controller.runtime.addresses import Address, TcpAddress, parse_address
from controller.runtime.logs import LogFormat

AUTO = "auto"
NO_STATE = "none"
_ALL_BITS = 2**64 - 1
_WHOLE_PERCENT = 100
# RFC 5880, 4.1: "Detect Mult" has 8 bits.
_MOST_BFD = 255


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


def _foreign(value: Any) -> Any:
    if value not in ("keep", "remove"):
        raise ValueError(f"{value!r} is neither keep nor remove")
    return value == "remove"


def _cookie_masks(value: Any) -> Any:
    """Cookies, or cookie/mask, with commas, as ovs-ofctl writes them; a cookie alone means exactly that one."""
    if not isinstance(value, str):
        return value
    return tuple(_cookie_mask(part.strip()) for part in value.split(",") if part.strip())


def _cookie_mask(text: str) -> CookieMask:
    cookie, slash, mask = text.partition("/")
    try:
        result = CookieMask(int(cookie, 0), int(mask, 0) if slash else _ALL_BITS)
    except ValueError:
        result = CookieMask(-1, -1)
    if not (0 <= result.value <= _ALL_BITS and 0 <= result.mask <= _ALL_BITS):
        raise ValueError(f"{text!r} is no cookie: write 64 bits, for example 0x1234000000000000/0xffff000000000000")
    return result


def _shares(value: Any) -> Any:
    """Percents by class, "control=5,collective=70,best-effort=25"; empty for the usual ones."""
    if not isinstance(value, str) or not value:
        return value or None
    given = [part.strip().partition("=") for part in value.split(",") if part.strip()]
    wrong = [name for name, _, percent in given if not percent.isdecimal() or name not in set(TrafficClass)]
    names = [name for name, _, _ in given]
    if wrong or sorted(names) != sorted(TrafficClass) or sum(int(p) for _, _, p in given) != _WHOLE_PERCENT:
        example = "control=5,collective=85,best-effort=10"
        raise ValueError(f"{value!r}: give each class once, in whole percent, 100 in all, for example {example}")
    if any(int(percent) == 0 for _, _, percent in given):
        raise ValueError(f"{value!r}: every class needs 1 percent at least, or it starves")
    return {TrafficClass(name): int(percent) / _WHOLE_PERCENT for name, _, percent in given}


def _bfd(value: Any) -> Any:
    """on, off, or an interval in milliseconds and how many of them may pass without a packet, as in 50x3."""
    if not isinstance(value, str):
        return value
    if value in ("on", "off"):
        return BfdSettings(enabled=value == "on")
    interval, _, multiplier = value.partition("x")
    if not (interval.isdecimal() and multiplier.isdecimal() and int(interval) and 1 <= int(multiplier) <= _MOST_BFD):
        raise ValueError(
            f"{value!r}: write on, off, or the interval in milliseconds and how many of them may pass in silence, 1 to "
            f"{_MOST_BFD}, for example 50x3"
        )
    return BfdSettings(interval_ms=int(interval), multiplier=int(multiplier), exact=True)


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
    qos_shares: Annotated[dict[TrafficClass, float] | None, BeforeValidator(_shares)] = Field(alias="HEDDLE_QOS_SHARES")
    foreign_removed: Annotated[bool, BeforeValidator(_foreign)] = Field(alias="HEDDLE_FOREIGN")
    foreign_spared: Annotated[tuple[CookieMask, ...], BeforeValidator(_cookie_masks)] = Field(
        alias="HEDDLE_FOREIGN_EXCEPT"
    )
    bfd: Annotated[BfdSettings, BeforeValidator(_bfd)] = Field(alias="HEDDLE_BFD")
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
    "HEDDLE_QOS_SHARES": "",
    "HEDDLE_FOREIGN": "keep",
    "HEDDLE_FOREIGN_EXCEPT": "",
    "HEDDLE_BFD": "off",
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
