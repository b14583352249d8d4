"""Any workload file -> one `Workload`. Decides which format a file is in, by its first bytes."""

from pathlib import Path

from controller.formats import chakra, simai
from controller.formats.problems import FileFormatError, FileProblem
from controller.formats.workload import Workload

MAX_BYTES = 1024 * 1024 * 1024
_HEADS = tuple(head.encode() for head in simai.HEADS)
# A Chakra trace begins with the length of a short message; text begins with a character.
_FIRST_CHARACTER = 0x20


def load(path: str | Path) -> Workload:
    """Raises FileFormatError with everything that is wrong, also when the file cannot be read."""
    filename = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise FileFormatError([FileProblem(filename, 0, what, "check the path and its permissions")]) from error
    if len(data) > MAX_BYTES:
        raise FileFormatError([FileProblem(filename, 0, "is larger than 1 GiB", "give the workload of a shorter run")])
    if data.startswith(_HEADS):
        return simai.read(data.decode("utf-8", errors="replace"), filename)
    if data and data[0] >= _FIRST_CHARACTER:
        cure = "give a workload of SimAI or AICB (text), or a Chakra execution trace (.et)"
        raise FileFormatError([FileProblem(filename, 0, "no workload file that is known", cure)])
    return chakra.read(data, filename)
