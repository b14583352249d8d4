"""The northbound messages (proto/heddle/v1) from and to the core's values.

Requests are read here only as far as their form goes: enumeration values, fields that are missing. What a collective
must be to make sense is checked by `controller.jobs`. Answers are built from the views of `controller.core.views`,
whose field names are those of the messages.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from google.protobuf.message import Message
from heddle.v1 import collective_pb2 as pb

from controller.jobs.collective import Algorithm, Collective, Operation, Phase, QueuePairPorts

_OPERATIONS = {
    pb.OPERATION_ALL_REDUCE: Operation.ALL_REDUCE,
    pb.OPERATION_ALL_GATHER: Operation.ALL_GATHER,
    pb.OPERATION_REDUCE_SCATTER: Operation.REDUCE_SCATTER,
    pb.OPERATION_BROADCAST: Operation.BROADCAST,
    pb.OPERATION_ALL_TO_ALL: Operation.ALL_TO_ALL,
    pb.OPERATION_SEND_RECV: Operation.SEND_RECV,
    pb.OPERATION_REDUCE: Operation.REDUCE,
}
_ALGORITHMS = {
    pb.ALGORITHM_RING: Algorithm.RING,
    pb.ALGORITHM_DIRECT: Algorithm.DIRECT,
    pb.ALGORITHM_TREE: Algorithm.TREE,
    pb.ALGORITHM_HALVING_DOUBLING: Algorithm.HALVING_DOUBLING,
    pb.ALGORITHM_HIERARCHICAL: Algorithm.HIERARCHICAL,
}
# Flows converted between two turns of the loop: about 5 ms of work.
_SLICE = 500


def read_collective(message: pb.Collective) -> Collective | list[str]:
    """The collective, or every problem with the form of the message."""
    operation = _OPERATIONS.get(message.operation)
    algorithm = _ALGORITHMS.get(message.algorithm)
    problems = []
    if operation is None:
        choices = ", ".join(_OPERATIONS.values())
        problems.append(f"operation: {_enum_text(pb.Operation, message.operation)}; choose one of {choices}")
    if algorithm is None and message.algorithm != pb.ALGORITHM_UNSPECIFIED:
        given = _enum_text(pb.Algorithm, message.algorithm)
        problems.append(f"algorithm: {given}; choose one of {', '.join(_ALGORITHMS.values())}, or leave it out")
    if operation is None or problems:
        return problems
    return Collective(
        job_id=message.job_id,
        operation=operation,
        algorithm=algorithm or _usual_algorithm(operation),
        ranks=tuple(message.ranks),
        size_bytes=message.size_bytes,
        rings=tuple(tuple(ring.ranks) for ring in message.rings),
        queue_pairs=message.queue_pairs or 1,
        ports=tuple(QueuePairPorts(p.src_rank, p.dst_rank, tuple(p.udp_source_ports)) for p in message.ports),
        ranks_per_host=message.ranks_per_host or 1,
        priority=message.priority,
        phase=Phase(message.phase.iteration, message.phase.number) if message.HasField("phase") else None,
    )


def _usual_algorithm(operation: Operation) -> Algorithm:
    """What libraries do when nobody says otherwise (collective.proto)."""
    return Algorithm.DIRECT if operation is Operation.ALL_TO_ALL else Algorithm.RING


def _enum_text(enum: Any, value: int) -> str:
    return "is not given" if value == 0 else f"{value} is no {enum.DESCRIPTOR.name.lower()} of this version"


# --- views to messages ---------------------------------------------------------------------------------


def to_message(view: Any, message_type: type[Message]) -> Any:
    """The message that says what the view (a frozen dataclass) says; fields that are None stay unset.

    Raises TypeError when the view has a field that the message has not, which only a programming error can cause.
    """
    return message_type(
        **{name: convert(getattr(view, name)) for name, convert in _arguments_of(type(view), message_type)}
    )


async def to_messages(views: Sequence[Any], message_type: type[Message]) -> list[Any]:
    """The same for many views, giving the loop a turn after every slice of them."""
    messages = []
    for start in range(0, len(views), _SLICE):
        messages += [to_message(view, message_type) for view in views[start : start + _SLICE]]
        await asyncio.sleep(0)
    return messages


async def plan_message(view: Any) -> pb.Plan:
    """A plan may hold 16,000 flows; they are converted slice by slice."""
    flows = await to_messages(view.flows, pb.PlannedFlow)
    plain = {
        name: convert(getattr(view, name)) for name, convert in _arguments_of(type(view), pb.Plan) if name != "flows"
    }
    return pb.Plan(**plain, flows=flows)


Converter = Callable[[Any], Any]
Arguments = tuple[tuple[str, Converter], ...]
# Few pairs of types exist, and each is worked out once.
_arguments: dict[tuple[type, type], Arguments] = {}


def _arguments_of(view_type: type, message_type: type[Message]) -> Arguments:
    """How each field of a view becomes an argument of the message."""
    pair = (view_type, message_type)
    if pair not in _arguments:
        _arguments[pair] = _work_out(view_type, message_type)
    return _arguments[pair]


def _work_out(view_type: type, message_type: type[Message]) -> Arguments:
    if not is_dataclass(view_type):
        raise TypeError(f"{view_type.__name__} is no dataclass: {message_type.DESCRIPTOR.full_name} is built from one")
    known = message_type.DESCRIPTOR.fields_by_name
    names = [field.name for field in fields(view_type)]
    if unknown := set(names) - set(known):
        raise TypeError(f"{message_type.DESCRIPTOR.full_name} has no field {', '.join(sorted(unknown))}")
    return tuple((name, _converter(known[name])) for name in names)


def _converter(field: Any) -> Converter:
    if field.message_type is None:
        return _as_it_is
    inner: type[Message] = field.message_type._concrete_class

    def one(value: Any) -> Any:
        return None if value is None else _nested(value, inner)

    def many(values: Iterable[Any]) -> list[Any]:
        return [_nested(value, inner) for value in values]

    return many if field.is_repeated else one


def _as_it_is(value: Any) -> Any:
    return value


# Thousands of flows share a few hops; protobuf copies what it is given, so that a message can be shared too.
@lru_cache(maxsize=65536)
def _hop(view: Any) -> Any:
    return to_message(view, pb.Hop)


def _nested(view: Any, message_type: type[Message]) -> Any:
    return _hop(view) if message_type is pb.Hop else to_message(view, message_type)
