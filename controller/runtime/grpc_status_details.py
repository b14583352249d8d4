"""Refusals as gRPC statuses: every problem in the text, one per line, and in google.rpc.BadRequest by field.

It decides how much of a long list is sent. A status travels in HTTP/2 trailers, where gRPC clients take 8 KiB by
default and turn anything longer into RESOURCE_EXHAUSTED, which would hide the reason altogether.
"""

import re
from collections.abc import Sequence
from typing import NoReturn

import grpc
import structlog
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from controller.core.commands import Failure

DETAILS_KEY = "grpc-status-details-bin"
# The text is sent three times: as grpc-message (percent-encoded), in Status and in BadRequest (base64).
_TEXT_LIMIT_BYTES = 1500
# A caller may be wrong in as many ways as its message has room for: a log of its own choosing would fill the disk.
_LOGGED_PROBLEMS = 1000
_FIELD = re.compile(r"^([a-z_][a-z0-9_]*(?:\[\d+\])?(?:\.[a-z_][a-z0-9_]*(?:\[\d+\])?)*): (.+)$", re.DOTALL)


class RequestRefused(Exception):
    """What a service method raises to answer with a status."""

    def __init__(self, code: grpc.StatusCode, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.code = code
        self.problems = tuple(problems)


def status_code(failure: Failure) -> grpc.StatusCode:
    return grpc.StatusCode[failure.name]


def shortened(problems: Sequence[str]) -> list[str]:
    """As many whole problems as fit, then how many more there are."""
    kept: list[str] = []
    used = 0
    for problem in problems:
        # What is not ASCII is percent-encoded, three bytes for each of its bytes.
        used += sum(1 if " " <= character <= "~" else 3 * len(character.encode()) for character in problem) + 3
        if used > _TEXT_LIMIT_BYTES and kept:
            logged = "them all" if len(problems) <= _LOGGED_PROBLEMS else f"the first {_LOGGED_PROBLEMS}"
            kept.append(f"and {len(problems) - len(kept)} more; the controller's log has {logged}")
            break
        kept.append(problem if used <= _TEXT_LIMIT_BYTES else f"{problem[: _TEXT_LIMIT_BYTES // 4]}...")
    return kept


def rich_status(code: grpc.StatusCode, problems: Sequence[str]) -> status_pb2.Status:
    """google.rpc.Status with the problems in its text and, where the request is at fault, field by field."""
    status = status_pb2.Status(code=code.value[0], message="\n".join(problems))
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND):
        violations = [_violation(problem) for problem in problems]
        packed = any_pb2.Any()
        packed.Pack(error_details_pb2.BadRequest(field_violations=violations))
        status.details.append(packed)
    return status


def _violation(problem: str) -> error_details_pb2.BadRequest.FieldViolation:
    """`field: text` names a field ("ranks[3]: ..."); anything else is about the request as a whole."""
    found = _FIELD.match(problem)
    if found is None:
        return error_details_pb2.BadRequest.FieldViolation(description=problem)
    return error_details_pb2.BadRequest.FieldViolation(field=found[1], description=found[2])


async def abort(context: "grpc.aio.ServicerContext", method: str, refused: RequestRefused) -> NoReturn:
    """Ends the call with the refusal. Writes more of the list to the log when the caller gets only a part."""
    problems = shortened(refused.problems)
    if len(refused.problems) > len(problems):
        log = structlog.get_logger("grpc")
        first, count = refused.problems[:_LOGGED_PROBLEMS], len(refused.problems)
        log.warning("request refused", method=method, code=refused.code.name, count=count, problems=first)
    status = rich_status(refused.code, problems)
    await context.abort(refused.code, status.message, ((DETAILS_KEY, status.SerializeToString()),))
    raise AssertionError("abort always raises")
