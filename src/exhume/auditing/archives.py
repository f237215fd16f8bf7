"""Archives of torch.save: their directory is checked before torch reads what it lists."""

from __future__ import annotations

import zipfile
from pathlib import Path

from exhume.auditing.limits import check_limit
from exhume.errors import FileError, brief

ADVICE = "save the weights alone, with torch.save(model.state_dict(), ...) or safetensors.torch.save_file"
# The last records of a zip file: the end of its directory and, before it, the locator and the end of a large one.
_END, _END_BYTES = b"PK\x05\x06", 22
_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20
_LARGE_END, _LARGE_END_BYTES = b"PK\x06\x06", 56
# An entry of the directory is at least 46 bytes, but a kilobyte in memory.
_MOST_ENTRIES, _ENTRY_BYTES = 200_000, 46 + 128


def check_archive(path: Path, limit: int) -> None:
    """Refuses archives that torch.save did not write, or that would unpack to more than the limit."""
    try:
        directory = _directory_bytes(path)
        if directory > _MOST_ENTRIES * _ENTRY_BYTES:
            raise FileError(f"{path} has a directory of {directory} bytes; valid: {_MOST_ENTRIES * _ENTRY_BYTES}")
        with zipfile.ZipFile(path) as archive:
            records = archive.infolist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, MemoryError) as error:
        raise FileError(f"{path} is not a readable torch.save archive (damaged?): {brief(error)}") from error
    check_limit(path, "unpacks to", sum(record.file_size for record in records), limit)
    names = [record.filename for record in records]
    inner = {name.partition("/")[2] for name in names}
    if "constants.pkl" in inner or any(name.startswith("code/") for name in inner):
        raise FileError(f"{path} is a TorchScript archive, which holds code; {ADVICE}")
    if "data.pkl" not in inner:
        raise FileError(f"{path} is a zip file, but torch.save did not write it; {ADVICE}")
    if len(set(names)) < len(names) or any(record.compress_type for record in records):
        raise FileError(f"{path} has doubled or compressed records, which torch.save does not write; {ADVICE}")


def _directory_bytes(path: Path) -> int:
    """The size of an archive's directory.

    The directory must be where every reader looks for it: no comment after it, and no second end elsewhere, or torch's
    reader could be shown another one than is checked here.
    """
    tail = _LARGE_END_BYTES + _LOCATOR_BYTES + _END_BYTES
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - tail))
        end = file.read().rjust(tail, b"\0")
    large, locator, last = end[:_LARGE_END_BYTES], end[_LARGE_END_BYTES:-_END_BYTES], end[-_END_BYTES:]
    if not last.startswith(_END) or last[20:] != b"\0\0":
        raise FileError(f"{path} is a torch.save archive without its end: truncated or damaged")
    if not locator.startswith(_LOCATOR):
        return int.from_bytes(last[12:16], "little")
    if not large.startswith(_LARGE_END) or int.from_bytes(locator[8:16], "little") != size - tail:
        raise FileError(f"{path} is a torch.save archive whose directory is not at its end: damaged")
    return int.from_bytes(large[40:48], "little")
