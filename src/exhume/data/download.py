"""Downloads CIFAR-10: resumes, verifies the checksum, and unpacks so that the folder is whole or absent."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path

from exhume.data.registry import resolve_home
from exhume.errors import DataError, InputError

# Address and checksum as published at https://www.cs.toronto.edu/~kriz/cifar.html
CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_CHECKSUM = "md5:c32a1d4ab5d03f1284b67883e8d87530"

# The folder inside the archive, and the bytes of a record: a label, then red, green and blue planes of 32x32.
BINARY_FOLDER = "cifar-10-batches-bin"
RECORD_BYTES = 1 + 3 * 32 * 32

Progress = Callable[[int, int | None], None]  # bytes done, bytes in all if known

_BLOCK = 1 << 18
_TIMEOUT_SECONDS = 60
_ALGORITHMS = ("md5", "sha256")
_BATCH_NAMES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))


def fetch_cifar10(
    home: str | Path | None = None,
    url: str = CIFAR10_URL,
    checksum: str = CIFAR10_CHECKSUM,
    progress: Progress | None = None,
) -> Path:
    """Downloads, verifies and unpacks CIFAR-10's binary batches; returns their folder.

    A transfer that breaks off leaves `<home>/downloads/<archive>.part`, and the next call goes on from there. A
    complete folder is returned at once; an incomplete one that somebody else made is never overwritten.

    Args:
        home: where data sets live; default `data_home()`.
        url: of the archive.
        checksum: "md5:<hex>" or "sha256:<hex>" of the archive.
        progress: called with the bytes done and, if the server says, the bytes in all.
    """
    algorithm, _, digest = checksum.partition(":")
    if algorithm not in _ALGORITHMS or not digest:
        raise InputError(f"checksum {checksum!r}; valid: md5:<hex> or sha256:<hex>")
    place = resolve_home(home)
    target = place / BINARY_FOLDER
    if _is_complete(target):
        return target
    if target.exists():
        raise DataError(f"{target} exists but lacks some of {', '.join(_BATCH_NAMES)}; move it away and run again")
    part = place / "downloads" / f"{url.rstrip('/').rsplit('/', 1)[-1]}.part"
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        _download(url, part, progress)
        _verify(part, algorithm, digest.lower())
        _unpack(part, target)
        part.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot write below {place}: {error}; what was downloaded is kept in {part}") from error
    return target


def _download(url: str, part: Path, progress: Progress | None) -> None:
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    total = None
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            done = _start_of_body(response, done, url, part)
            length = response.headers.get("Content-Length")
            total = done + int(length) if length and length.isdecimal() else None
            with part.open("ab" if done else "wb") as file:
                while block := response.read(_BLOCK):
                    file.write(block)
                    done += len(block)
                    if progress is not None:
                        progress(done, total)
    except urllib.error.HTTPError as error:
        # "Range not satisfiable": nothing is left to send. The checksum decides whether what is here is right.
        if error.code == 416 and done:
            return
        raise _broken(url, part, f"the server answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _broken(url, part, str(error) or type(error).__name__) from error
    # http.client ends a short body without an error when it is read in blocks.
    if total is not None and done < total:
        raise _broken(url, part, f"the transfer ended after {done} of {total} bytes")


def _start_of_body(response: http.client.HTTPResponse, done: int, url: str, part: Path) -> int:
    """Where in the archive the body begins: at `done`, or at 0 because servers may ignore Range and send all (200)."""
    if response.status != 206:
        return 0
    start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if start is not None and int(start.group(1)) == done:
        return done
    # Neither a beginning nor a continuation: without the partial file the next request asks for everything.
    part.unlink(missing_ok=True)
    raise DataError(f"{url} was asked to go on at byte {done} and did not; {part} was removed, run again")


def _broken(url: str, part: Path, reason: str) -> DataError:
    return DataError(
        f"download of {url} broke off: {reason}; whatever arrived is kept in {part}, and running again resumes there"
    )


def _verify(part: Path, algorithm: str, expected: str) -> None:
    # The checksum guards against damage in transit, so a FIPS build may compute md5 too.
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    if found != expected:
        part.unlink()
        raise DataError(
            f"the downloaded {part.stem} has {algorithm} {found}, not {expected}; it was removed, run again"
        )


def _unpack(archive: Path, target: Path) -> None:
    """Unpacks beside `target` and renames, so that `target` is never there in part."""
    if not hasattr(tarfile, "data_filter"):
        raise DataError("this Python cannot unpack archives safely (tarfile has no data filter); use 3.11.4 or newer")
    temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        with tarfile.open(archive, "r:gz") as tar:
            tar.extractall(temporary, filter="data")
        unpacked = temporary / BINARY_FOLDER
        if not _is_complete(unpacked):
            raise DataError(f"{archive} lacks {BINARY_FOLDER}/ with whole {', '.join(_BATCH_NAMES)}")
        try:
            unpacked.replace(target)
        except OSError:
            # Another process may have finished first; its folder is as good as ours.
            if not _is_complete(target):
                raise
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{archive} is not a readable archive: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _is_complete(folder: Path) -> bool:
    sizes = [path.stat().st_size if (path := folder / name).is_file() else 0 for name in _BATCH_NAMES]
    return all(size > 0 and size % RECORD_BYTES == 0 for size in sizes)
