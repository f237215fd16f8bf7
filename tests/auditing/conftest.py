"""Malicious files, and a check that loading them executed nothing."""

import os
import pickle
import zipfile

import pytest
import torch


class Payload:
    """Creates a folder when an unsafe reader unpickles it."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.mkdir, (str(self.marker),))


@pytest.fixture
def payload(tmp_path):
    marker = tmp_path / "the-payload-ran"
    yield Payload(marker)
    assert not marker.exists(), "a payload was executed"


@pytest.fixture
def state():
    generator = torch.Generator().manual_seed(0)
    return {
        "first.weight": torch.randn((5, 4), generator=generator),
        "head.weight": torch.randn((2, 5), generator=generator),
    }


@pytest.fixture
def rezip():
    """Rewrites a zip archive, passing its records through a function of (name, content)."""

    def write(source, target, change, compression=zipfile.ZIP_STORED):
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
            for record in old.infolist():
                name, content = change(record.filename, old.read(record))
                new.writestr(name, content)
        return target

    return write


@pytest.fixture
def pickled_archive(tmp_path, rezip):
    """A torch.save archive whose pickle is that of another object."""

    def write(value, name="hostile.pt"):
        torch.save({"weight": torch.ones(2)}, tmp_path / "honest.pt")
        raw = pickle.dumps(value, protocol=2)
        return rezip(
            tmp_path / "honest.pt",
            tmp_path / name,
            lambda record, content: (record, raw if record.endswith("data.pkl") else content),
        )

    return write
