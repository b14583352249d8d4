"""How log lines look: for people on a terminal, key=value where they are piped, JSON when asked for.

Everything goes to standard error, also what libraries log through the standard library.
"""

import logging
import sys
from typing import Any, Literal

import structlog

LogFormat = Literal["console", "json"]

# ovsdbapp logs every transaction and reports each failure by itself; `ovsdb` says what matters, once.
_QUIET_LIBRARIES = ("ovsdbapp", "grpc", "asyncio")


def set_up(log_format: LogFormat, level: str) -> None:
    """For the whole process. `level` is a name of the standard library's logging ("info")."""
    before: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=False),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *before,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=before,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format)],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL if name == "ovsdbapp" else logging.WARNING)


def _renderers(log_format: LogFormat) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    if sys.stderr.isatty():
        return [structlog.dev.ConsoleRenderer(colors=True)]
    order = ["timestamp", "level", "logger", "event"]
    key_values = structlog.processors.KeyValueRenderer(key_order=order, repr_native_str=False)
    return [structlog.processors.format_exc_info, key_values]
