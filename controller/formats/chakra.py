"""Execution traces of ASTRA-sim in MLCommons Chakra's protobuf format, version 0.0.4 (`NAME.RANK.et`).

A file is a sequence of messages, each after its length as a varint: one GlobalMetadata, then a Node for each operation
(mlcommons/chakra, `schema/protobuf/et_def.proto`). Decides which fields are looked at: kind, duration, and the type and
size of collectives. A trace is one rank's and does not name its group, so all ranks take part. Nodes are taken in the
order of the file.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from controller.formats.problems import FileFormatError, FileProblem
from controller.formats.workload import Group, Workload, WorkloadStep
from controller.jobs.collective import Operation

_COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 4, 5, 6, 7
_OPERATIONS = {
    0: Operation.ALL_REDUCE,
    1: Operation.REDUCE,
    2: Operation.ALL_GATHER,
    5: Operation.BROADCAST,
    6: Operation.ALL_TO_ALL,
    7: Operation.REDUCE_SCATTER,
    8: Operation.REDUCE_SCATTER,
}
_BARRIER = 9
_US = 1e-6
# Bits of seven that a length may have.
_LONGEST_VARINT = 63

_FIELD = descriptor_pb2.FieldDescriptorProto


def _messages() -> tuple[type[Any], type[Any]]:
    """(GlobalMetadata, Node): the fields of the published schema that are read here, by their numbers."""
    file = descriptor_pb2.FileDescriptorProto(name="heddle/chakra.proto", package="heddle.chakra", syntax="proto3")
    attribute = file.message_type.add(name="Attribute")
    # Numbers come in whichever of these types the writer chose.
    for name, number, kind in (
        ("name", 1, _FIELD.TYPE_STRING),
        ("int32_val", 7, _FIELD.TYPE_INT32),
        ("int64_val", 9, _FIELD.TYPE_INT64),
        ("uint32_val", 11, _FIELD.TYPE_UINT32),
        ("uint64_val", 13, _FIELD.TYPE_UINT64),
    ):
        attribute.field.add(name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    metadata = file.message_type.add(name="Metadata")
    metadata.field.add(name="version", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    node = file.message_type.add(name="Node")
    for name, number, kind in (
        ("name", 2, _FIELD.TYPE_STRING),
        ("type", 3, _FIELD.TYPE_INT32),
        ("duration_micros", 7, _FIELD.TYPE_UINT64),
    ):
        node.field.add(name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    node.field.add(
        name="attr",
        number=10,
        type=_FIELD.TYPE_MESSAGE,
        type_name=".heddle.chakra.Attribute",
        label=_FIELD.LABEL_REPEATED,
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = (pool.FindMessageTypeByName(f"heddle.chakra.{name}") for name in ("Metadata", "Node"))
    first, second = (message_factory.GetMessageClass(each) for each in made)
    return first, second


_METADATA, _NODE = _messages()


def read(data: bytes, filename: str = "<bytes>") -> Workload:
    """Raises FileFormatError when this is no such trace, or holds what cannot be simulated."""
    problems: list[FileProblem] = []
    steps = [
        step
        for number, node in enumerate(_nodes(data, filename), start=1)
        if (step := _step(number, node, filename, problems)) is not None
    ]
    if problems:
        raise FileFormatError(problems)
    return Workload(filename, ranks=0, tensor=1, expert=1, pipeline=1, steps=tuple(steps))


def _nodes(data: bytes, filename: str) -> list[Any]:
    """Every node; the metadata in front is only looked at for being there."""
    try:
        parts = list(_parts(data))
        if not parts:
            raise ValueError("the file is empty")
        _METADATA.FromString(parts[0])
        return [_NODE.FromString(part) for part in parts[1:]]
    except (DecodeError, ValueError) as error:
        what, cure = f"no Chakra execution trace: {error}", "give a whole execution trace (.et) of Chakra 0.0.4"
        raise FileFormatError([FileProblem(filename, 0, what, cure)]) from error


def _parts(data: bytes) -> Iterator[bytes]:
    """What stands after each length. ValueError when it reaches beyond the end."""
    at = 0
    while at < len(data):
        length = shift = 0
        more = True
        while more and at < len(data) and shift < _LONGEST_VARINT:
            length |= (data[at] & 0x7F) << shift
            more = data[at] >= 0x80
            shift += 7
            at += 1
        if more or at + length > len(data):
            raise ValueError("it ends in the middle of a message")
        yield data[at : at + length]
        at += length


def _step(number: int, node: Any, filename: str, problems: list[FileProblem]) -> WorkloadStep | None:
    values = {a.name: a.int64_val or a.uint64_val or a.int32_val or a.uint32_val for a in node.attr}
    compute_s = node.duration_micros * _US
    if node.type in (_SEND, _RECEIVE):
        what = f'node {number} ("{node.name}") sends from one rank to another'
        problems.append(FileProblem(filename, 0, what, "traces of collectives alone can be simulated"))
        return None
    if node.type == _COMPUTE:
        return WorkloadStep(node.name, compute_s)
    if node.type != _COLLECTIVE or values.get("comm_type") == _BARRIER:
        return None
    operation = _OPERATIONS.get(values.get("comm_type", 0))
    if operation is None:
        what = f'node {number} ("{node.name}") is a collective of type {values.get("comm_type")}'
        problems.append(FileProblem(filename, 0, what, f"known are {', '.join(sorted({*_OPERATIONS.values()}))}"))
        return None
    return WorkloadStep(node.name, 0.0, operation, Group.DATA, values.get("comm_size", 0))
