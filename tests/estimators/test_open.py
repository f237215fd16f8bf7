"""Files are opened without running code in them: skops only, known types only, versions named."""

import json
import pickle
import zipfile

import joblib
import numpy as np
import pytest
import sklearn
import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from exhume import FileError, InputError
from exhume.auditing.estimator import audit_estimator_file
from exhume.auditing.settings import Settings
from exhume.estimators.open import open_estimator

MODEL = make_pipeline(StandardScaler(), KNeighborsClassifier(1)).fit(np.arange(12.0).reshape(6, 2), [0, 1] * 3)


class Payload:
    """Would make a file if it was unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def my_function(values):
    return values


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_pickle_is_refused_and_its_payload_does_not_run(tmp_path, protocol):
    file, made = tmp_path / "model.dat", tmp_path / "made"
    file.write_bytes(pickle.dumps(Payload(made), protocol=protocol))
    with pytest.raises(FileError, match=r"pickle or joblib(.|\n)*skops.io.dump\(joblib.load"):
        open_estimator(file)
    assert not made.exists()


@pytest.mark.parametrize("compress", [0, ("zlib", 3), ("gzip", 3), ("bz2", 3), ("xz", 3)], ids=str)
def test_joblib_files_are_refused_with_the_lines_that_convert_them(tmp_path, compress):
    file = tmp_path / "model.joblib"
    joblib.dump(MODEL, file, compress=compress)
    with pytest.raises(FileError, match=r'skops.io.dump\(joblib.load\("model.joblib"\), "model.skops"\)'):
        open_estimator(file)


def test_a_skops_file_gives_the_estimator_back(tmp_path):
    skops.io.dump(MODEL, tmp_path / "model.skops")
    estimator, notes = open_estimator(tmp_path / "model.skops")
    np.testing.assert_array_equal(estimator[-1]._fit_X, MODEL[-1]._fit_X)
    assert notes == ()


def test_a_type_that_skops_does_not_know_is_refused_by_name(tmp_path):
    skops.io.dump(make_pipeline(FunctionTransformer(my_function), Ridge()).fit([[0.0], [1.0]], [0, 1]), tmp_path / "m")
    with pytest.raises(FileError, match="my_function.*Nothing was loaded"):
        open_estimator(tmp_path / "m")


def file_of_another_version(path):
    """A skops file whose stored version of scikit-learn is 0.99.1."""
    skops.io.dump(MODEL, path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = members["schema.json"].decode()
    assert sklearn.__version__ in text
    members["schema.json"] = text.replace(sklearn.__version__, "0.99.1").encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_another_version_is_named_beside_this_one(tmp_path):
    file_of_another_version(tmp_path / "old.skops")
    _, notes = open_estimator(tmp_path / "old.skops")
    assert len(notes) == 1
    assert "0.99.1" in notes[0]
    assert sklearn.__version__ in notes[0]


def test_the_page_of_a_file_of_another_version_warns_and_names_both(tmp_path):
    file_of_another_version(tmp_path / "old.skops")
    found = audit_estimator_file(Settings(estimator=tmp_path / "old.skops"), None)
    warning = f"Warning: the file was written with scikit-learn 0.99.1, and this is {sklearn.__version__}."
    assert any(note.startswith(warning) for note in found.report.notes)


def test_an_unfitted_pipeline_in_a_file_is_refused_by_the_step(tmp_path):
    skops.io.dump(make_pipeline(StandardScaler(), Ridge()), tmp_path / "model.skops")
    with pytest.raises(InputError, match=r"StandardScaler \(standardscaler\) is not fitted"):
        audit_estimator_file(Settings(estimator=tmp_path / "model.skops"), None)


def test_a_pipeline_of_texts_in_a_file_is_declined_with_the_reason(tmp_path):
    model = make_pipeline(TfidfVectorizer(), KNeighborsClassifier(1)).fit(["one patient", "two patients"], [0, 1])
    skops.io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match="it reads texts"):
        audit_estimator_file(Settings(estimator=tmp_path / "model.skops"), None)


@pytest.mark.parametrize("content", [b"", b"rows,columns\n1,2\n", b"\x00" * 100])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "model.skops").write_bytes(content)
    with pytest.raises(FileError, match="no skops file"):
        open_estimator(tmp_path / "model.skops")


def test_archives_that_skops_did_not_write_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as archive:
        archive.writestr("weights.npy", b"1")
    with pytest.raises(FileError, match=r"no schema\.json"):
        open_estimator(tmp_path / "model.skops")


def test_a_damaged_schema_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as archive:
        archive.writestr("schema.json", json.dumps({"__class__": "x"}))
    with pytest.raises(FileError, match="not a whole skops file"):
        open_estimator(tmp_path / "model.skops")


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.skops", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}")
        archive.writestr("zeros", b"\x00" * 2_000_000)
    with pytest.raises(FileError, match="unpacks to 2,000,002 bytes"):
        open_estimator(tmp_path / "model.skops", "1MB")


def test_what_is_no_estimator_is_refused(tmp_path):
    skops.io.dump({"a": 1}, tmp_path / "m")
    with pytest.raises(InputError, match="holds a dict"):
        open_estimator(tmp_path / "m")
