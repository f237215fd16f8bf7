"""Behaviour of the CIFAR-10 download, against a server on this machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from exhume.data import fetch_cifar10, load
from exhume.errors import DataError, InputError

NAME = "cifar-10-binary.tar.gz"


class Server(ThreadingHTTPServer):
    """Serves one archive; the switches make it misbehave. Remembers the Range header of every request."""

    archive = b""
    honours_range = True
    cut_after: int | None = None
    status: int | None = None
    announced_shift = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{NAME}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        archive = self.server.archive
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.honours_range else 0
        if self.server.status or (start and start >= len(archive)):
            self.send_error(self.server.status or 416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header(
                "Content-Range", f"bytes {start + self.server.announced_shift}-{len(archive) - 1}/{len(archive)}"
            )
        self.send_header("Content-Length", str(len(archive) - start))
        self.end_headers()
        self.wfile.write(archive[start:][: self.server.cut_after])

    def log_message(self, *_: object) -> None:
        pass


def pack(files: dict[str, bytes]) -> bytes:
    """A .tar.gz of these files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def files(cifar_records: Callable[..., np.ndarray]) -> dict[str, bytes]:
    batches = {number: cifar_records([6, 9, 6, 9], seed=number).tobytes() for number in range(1, 6)}
    return {f"cifar-10-batches-bin/data_batch_{number}.bin": content for number, content in batches.items()}


@pytest.fixture
def server(files: dict[str, bytes]) -> Iterator[Server]:
    with Server() as running:
        running.archive = pack(files)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def checksum(server: Server) -> str:
    return f"sha256:{hashlib.sha256(server.archive).hexdigest()}"


def part(home: Path) -> Path:
    return home / "downloads" / f"{NAME}.part"


def leftovers(home: Path) -> list[str]:
    """Everything below the data home but the downloads folder itself."""
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.name != "downloads")


def test_download_unpacks_loads_and_leaves_nothing_else(tmp_path: Path, server: Server) -> None:
    seen: list[tuple[int, int | None]] = []
    folder = fetch_cifar10(tmp_path, server.url, checksum(server), lambda done, total: seen.append((done, total)))
    assert folder == tmp_path / "cifar-10-batches-bin"
    assert load("cifar10", per_class=10, home=tmp_path).num_samples == 20
    assert leftovers(tmp_path) == sorted(
        ["cifar-10-batches-bin", *(f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6))]
    )
    assert seen[-1] == (len(server.archive), len(server.archive))
    assert server.ranges == [None]


def test_md5_is_accepted_as_published(tmp_path: Path, server: Server) -> None:
    digest = hashlib.md5(server.archive, usedforsecurity=False).hexdigest()
    assert fetch_cifar10(tmp_path, server.url, f"md5:{digest}").is_dir()


def test_complete_folder_is_not_fetched_again(tmp_path: Path, server: Server) -> None:
    for _ in range(2):
        fetch_cifar10(tmp_path, server.url, checksum(server))
    assert len(server.ranges) == 1


def test_partial_file_is_resumed_where_it_ends(tmp_path: Path, server: Server) -> None:
    part(tmp_path).parent.mkdir()
    part(tmp_path).write_bytes(server.archive[:1000])
    seen: list[tuple[int, int | None]] = []
    fetch_cifar10(tmp_path, server.url, checksum(server), lambda done, total: seen.append((done, total)))
    assert server.ranges == ["bytes=1000-"]
    assert seen[-1] == (len(server.archive), len(server.archive))
    assert not part(tmp_path).exists()


def test_server_that_ignores_range_starts_over(tmp_path: Path, server: Server) -> None:
    server.honours_range = False
    part(tmp_path).parent.mkdir()
    part(tmp_path).write_bytes(b"x" * 1000)
    assert fetch_cifar10(tmp_path, server.url, checksum(server)).is_dir()
    assert server.ranges == ["bytes=1000-"]


def test_server_that_sends_another_range_makes_the_next_run_start_over(tmp_path: Path, server: Server) -> None:
    server.announced_shift = 1
    part(tmp_path).parent.mkdir()
    part(tmp_path).write_bytes(server.archive[:1000])
    with pytest.raises(DataError, match="asked to go on at byte 1000"):
        fetch_cifar10(tmp_path, server.url, checksum(server))
    assert fetch_cifar10(tmp_path, server.url, checksum(server)).is_dir()
    assert server.ranges == ["bytes=1000-", None]


def test_complete_partial_file_is_verified_and_unpacked(tmp_path: Path, server: Server) -> None:
    part(tmp_path).parent.mkdir()
    part(tmp_path).write_bytes(server.archive)
    assert fetch_cifar10(tmp_path, server.url, checksum(server)).is_dir()


def test_broken_transfer_keeps_the_part_and_the_next_run_finishes(tmp_path: Path, server: Server) -> None:
    server.cut_after = 2000
    with pytest.raises(DataError, match=rf"2000 of {len(server.archive)} bytes.*running again resumes"):
        fetch_cifar10(tmp_path, server.url, checksum(server))
    assert part(tmp_path).read_bytes() == server.archive[:2000]
    assert leftovers(tmp_path) == [f"downloads/{NAME}.part"]
    server.cut_after = None
    assert fetch_cifar10(tmp_path, server.url, checksum(server)).is_dir()
    assert server.ranges == [None, "bytes=2000-"]


def test_wrong_checksum_removes_the_part_and_harms_nothing(tmp_path: Path, server: Server) -> None:
    (tmp_path / "tiny-imagenet-200").mkdir()
    with pytest.raises(DataError, match=r"sha256.*removed"):
        fetch_cifar10(tmp_path, server.url, f"sha256:{'0' * 64}")
    assert leftovers(tmp_path) == ["tiny-imagenet-200"]


@pytest.mark.parametrize("status", [404, 503])
def test_server_errors_are_told_and_the_part_kept(tmp_path: Path, server: Server, status: int) -> None:
    server.status = status
    part(tmp_path).parent.mkdir()
    part(tmp_path).write_bytes(b"begun")
    with pytest.raises(DataError, match=f"{status}.*kept"):
        fetch_cifar10(tmp_path, server.url, checksum(server))
    assert part(tmp_path).read_bytes() == b"begun"


def test_unreachable_server_is_told(tmp_path: Path) -> None:
    with Server() as closed:
        url = closed.url
    with pytest.raises(DataError, match=r"broke off.*running again resumes"):
        fetch_cifar10(tmp_path, url, "md5:0")


def test_incomplete_folder_of_somebody_is_not_overwritten(tmp_path: Path, server: Server) -> None:
    mine = tmp_path / "cifar-10-batches-bin" / "data_batch_1.bin"
    mine.parent.mkdir()
    mine.write_bytes(b"mine")
    with pytest.raises(DataError, match="move it away"):
        fetch_cifar10(tmp_path, server.url, checksum(server))
    assert mine.read_bytes() == b"mine"
    assert server.ranges == []


@pytest.mark.parametrize(
    "contents",
    [{"../outside.bin": b"x"}, {"cifar-10-batches-bin/data_batch_1.bin": b"short"}, {"other/a": b"x"}],
)
def test_archives_with_other_content_leave_no_folder(
    tmp_path: Path, server: Server, contents: dict[str, bytes]
) -> None:
    home = tmp_path / "home"
    server.archive = pack(contents)
    with pytest.raises(DataError, match=NAME):
        fetch_cifar10(home, server.url, checksum(server))
    assert leftovers(home) == [f"downloads/{NAME}.part"]
    assert not (tmp_path / "outside.bin").exists()


def test_rubbish_with_the_right_checksum_is_no_archive(tmp_path: Path, server: Server) -> None:
    server.archive = b"rubbish" * 100
    with pytest.raises(DataError, match="not a readable archive"):
        fetch_cifar10(tmp_path, server.url, checksum(server))


@pytest.mark.parametrize("wrong", ["", "md5", "md5:", "crc32:00"])
def test_unusable_checksums_are_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InputError, match="md5:<hex>"):
        fetch_cifar10(tmp_path, "http://127.0.0.1/", wrong)
