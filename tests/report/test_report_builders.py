"""Reports from subjects, run folders, comparisons and sweeps: what they show, and what redaction leaves out."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from subjects import DIM, ENOUGH, ROWS, TRUTH, result_of, subject_of

import exhume
from exhume import attacks, data
from exhume.data import PictureFormat, TableFormat
from exhume.data.formats import Column
from exhume.errors import FileError, InputError
from exhume.report import Level, of_comparison, of_run, of_subject, of_sweep, render
from exhume.results.stop import Stop
from exhume.run_folder import RunFolder
from exhume.scoring.comparison import Entry
from exhume.support import files
from exhume.sweep import Grid, Store
from exhume.target.knowledge import Knowledge

BARS = (0.2, 1e-6, 0.02, 1e-5)
PICTURE = PictureFormat((1, 4, 4), (0.5,), (0.2,))
TABLE = TableFormat(tuple(Column(f"column {index}", "kg", 50.0 + index, 7.0) for index in range(DIM)))


def test_samples_are_sorted_by_certainty_and_stand_beside_their_matches():
    report = of_subject(subject_of(result_of(BARS, "approximate", samples=TRUTH.flip(0)), truth=TRUTH))
    assert [(each.row, each.certainty) for each in report.samples] == [
        (1, "certain"),
        (3, "certain"),
        (2, "likely"),
        (0, "not trusted"),
    ]
    assert [each.truth_index for each in report.samples] == [2, 0, 1, 3]
    assert all(each.error < 1e-6 for each in report.samples)


def test_rows_without_error_bars_stand_in_their_order_and_are_not_trusted():
    report = of_subject(subject_of(result_of(verdict="failed")))
    assert [each.row for each in report.samples] == list(range(ROWS))
    assert {each.certainty for each in report.samples} == {"not trusted"}
    assert {each.error_bar for each in report.samples} == {None}


def test_plain_vectors_have_no_pictures_and_no_records():
    report = of_subject(subject_of(result_of(BARS, "approximate"), truth=TRUTH))
    assert {each.picture for each in report.samples} == {None}
    assert {each.record for each in report.samples} == {()}


def test_pictures_stand_beside_the_true_ones_and_are_equal_where_samples_are():
    report = of_subject(subject_of(result_of(BARS, "approximate"), truth=TRUTH, picture=PICTURE, input_shape=(1, 4, 4)))
    assert all(each.picture.startswith("data:image/png") for each in report.samples)
    assert all(each.picture == each.true_picture for each in report.samples)
    assert report.samples_note == ""


def test_norms_and_signs_that_are_open_are_those_of_the_match_and_the_page_says_so():
    result = result_of(BARS, "approximate", samples=-3 * TRUTH, norms_determined=False, signs_determined=False)
    report = of_subject(subject_of(result, truth=TRUTH, picture=PICTURE, input_shape=(1, 4, 4)))
    assert "norms and signs" in report.samples_note
    assert all(each.picture == each.true_picture for each in report.samples)


def test_open_norms_without_the_truth_are_stretched():
    result = result_of(BARS, "approximate", norms_determined=False, signs_determined=False)
    report = of_subject(subject_of(result, picture=PICTURE, input_shape=(1, 4, 4)))
    longer = of_subject(subject_of(replace(result, samples=5 * TRUTH), picture=PICTURE, input_shape=(1, 4, 4)))
    assert "stretched" in report.samples_note
    assert "negative" in report.samples_note
    assert [each.picture for each in report.samples] == [each.picture for each in longer.samples]


def test_what_is_known_of_pixels_draws_pictures():
    known = Knowledge(num_samples=ROWS, pixel_mean=0.5, pixel_std=0.2, pixel_range=(0.0, 1.0))
    shape = {"input_shape": (1, 4, 4)}
    drawn = of_subject(subject_of(result_of(BARS, "approximate", knowledge=known), **shape))
    given = of_subject(subject_of(result_of(BARS, "approximate"), picture=PICTURE, **shape))
    assert [each.picture for each in drawn.samples] == [each.picture for each in given.samples]
    assert drawn.samples_note == ""


def test_records_are_in_original_units_with_names():
    report = of_subject(subject_of(result_of(BARS, "approximate"), truth=TRUTH, table=TABLE))
    assert (report.fields[3].name, report.fields[3].unit) == ("column 3", "kg")
    for sample in report.samples:
        assert sample.record == pytest.approx(sample.true_record)
        assert sample.record[3] == pytest.approx(53.0 + 7.0 * float(TRUTH[sample.row, 3]))
    assert {each.picture for each in report.samples} == {None}


def test_labels_are_words_where_classes_have_names():
    one_hot = torch.eye(ROWS) + 0.05
    signs = torch.tensor([1.0, -1.0, 0.98, -1.02])
    names = ("cat", "<b>dog</b>", "owl", "fox")

    def labels(values, **changes):
        report = of_subject(subject_of(result_of(verdict="failed", labels=values), **changes))
        return [each.label for each in report.samples]

    assert labels(one_hot, class_names=names) == list(names)
    assert labels(one_hot) == ["class 0", "class 1", "class 2", "class 3"]
    assert labels(signs, class_names=("even", "odd")) == ["odd", "even", "odd", "even"]
    assert labels(signs) == ["+1", "-1", "+1", "-1"]
    assert labels(torch.tensor([0.123456, 2.0, -7.5, 1e4])) == ["0.123", "2", "-7.5", "1e+04"]
    assert labels(None) == [None] * ROWS


def test_every_assumption_is_a_sentence():
    known = Knowledge(
        num_samples=ROWS + 1,
        samples=torch.ones(1, DIM),
        labels=torch.arange(1.0, ROWS + 2),
        label_alphabet="signs",
        norm=4.0,
        pixel_range=(0.0, 1.0),
        pixel_mean=(0.1, 0.2, 0.3),
        pixel_std=0.25,
        subspace=torch.eye(DIM)[:3],
        initial_head="zero",
        initial_body="known",
    )
    told = of_subject(subject_of(result_of(BARS, "approximate", knowledge=known))).assumptions
    text = " ".join(fact.value for fact in told)
    for part in ("taken to be zero", "the other layers before", "5 training", "1 of the", "labels of all",
                 "-1 or +1", "norm 4", "between 0 and 1", "0.1, 0.2, 0.3", "0.25", "dimension 3 of 16"):  # fmt: skip
        assert part in text, part
    nothing = of_subject(subject_of(result_of(BARS, "approximate", knowledge=Knowledge()))).assumptions
    assert any(fact.value.startswith("No training sample, no label") for fact in nothing)


def test_an_attack_that_could_not_be_run_leaves_the_law_and_the_reason():
    report = of_subject(subject_of(None, reason="<img src=x> too large"))
    assert report.law is not None
    assert report.samples == ()
    assert "<img src=x> too large" in " ".join(report.verdict.sentences)
    assert "<img" not in render(report)


def test_the_model_card_is_markdown_that_shows_hostile_names_as_they_are():
    card = of_subject(subject_of(result_of(BARS, "approximate"), name="a\n# [b](c) <i>")).model_card
    assert card.startswith("## Training data exposure\n")
    assert "a \\# \\[b\\]\\(c\\) \\<i\\>" in card
    assert f"exhume {exhume.__version__}" in card


def numbers_of(tensor):
    """Every number of a tensor as JSON may write it, cut to the digits that identify it."""
    return {f"{abs(number):.5f}"[:6] for number in tensor.reshape(-1).tolist() if abs(number) > 0.2}


def test_redaction_leaves_no_value_of_recovered_or_true_samples():
    labels = torch.tensor([12.3457, 45.678, 78.912, 34.567])
    result = result_of(BARS, "approximate", labels=labels)
    subject = subject_of(
        result, truth=TRUTH, true_labels=labels, table=TABLE, provenance=(exhume.report.Fact("Date", "2000-01-01"),)
    )
    shown, hidden = (json.dumps(of_subject(replace(subject, redacted=flag)).to_json()) for flag in (False, True))
    secrets = numbers_of(TABLE.to_records(TRUTH)) | {"12.3", "45.7", "78.9", "34.6"}
    assert sum(secret in shown for secret in secrets) == len(secrets)
    assert not [secret for secret in secrets if secret in hidden]


def test_redacted_pictures_tell_less_than_their_samples():
    checks = torch.ones(1, 16, 16)
    checks[:, ::2, ::2] = -1.0
    samples = torch.stack((checks.flatten(), -checks.flip(1).flatten()))
    mirrored = torch.stack((checks.flip(1).flatten(), -checks.flatten()))

    def drawn(rows, redacted):
        result = result_of((1e-6, 1e-6), "exact", samples=rows)
        subject = subject_of(
            result, truth=rows, picture=PictureFormat((1, 16, 16), (0.5,), (0.4,)), input_shape=(1, 16, 16)
        )
        report = of_subject(replace(subject, redacted=redacted))
        return [(each.picture, each.true_picture) for each in report.samples]

    assert drawn(samples, False) != drawn(mirrored, False)
    assert drawn(samples, True) == drawn(mirrored, True)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run folder of 3 digits with two attacks in it and a comparison of them."""
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "digits")
    digits = data.load("digits", samples=3)
    victim = exhume.RandomFeatures(num_features=1200, seed=0).fit(digits.inputs, digits.labels)
    target = victim.target(input_shape=digits.picture.shape, knowledge=Knowledge.about(digits.labels))
    folder.save_target(target)
    folder.save_secret(replace(digits, non_members=digits.non_members[:5]))
    entries = []
    for attack in (attacks.Descent(max_steps=30), attacks.Exact()):
        result = attack(target, seed=0)
        folder.save_result(result)
        entries.append(Entry(result.method, result).to_json())
    entries.append(Entry("kkt", reason="there is no network").to_json())
    files.write_json(folder.comparison[0], {"methods": entries})
    return folder


def test_a_run_is_reported_with_its_truth(run):
    report = of_run(run, "exact")
    assert report.verdict.level is Level.LEAK
    assert report.law is not None
    assert len(report.convergence) == 2
    assert all(each.true_picture and each.label == each.true_label for each in report.samples)
    facts = {fact.name: fact.value for fact in report.facts}
    assert (facts["Recovered"], facts["Weights of the head"]) == ("3 of 3", "1,200")
    assert render(report) == render(of_run(run, "exact"))


def test_without_the_truth_no_secret_is_opened(run, monkeypatch, tmp_path):
    copy = RunFolder(tmp_path / "copy")
    copy.save_target(run.load_target())
    copy.save_result(run.load_result("exact"))
    monkeypatch.setattr(RunFolder, "load_secret", lambda self: pytest.fail("the truth was opened"))
    report = of_run(copy)
    assert report.verdict.level is Level.LEAK
    assert all(each.error is None and each.true_picture is None for each in report.samples)
    assert "stretched" in report.samples_note


def test_a_result_of_other_weights_is_refused(run, tmp_path):
    copy = RunFolder(tmp_path / "copy")
    target = run.load_target()
    copy.save_target(replace(target, displacement=2 * target.displacement))
    copy.save_result(run.load_result("exact"))
    with pytest.raises(FileError, match="other weights"):
        of_run(copy)


def test_a_comparison_shows_the_gallery_of_the_best_certificate(run):
    report = of_comparison(run)
    assert report.verdict.level is Level.LEAK
    assert "Recovered by exact." in report.samples_note
    (table,) = report.tables
    assert [row[0] for row in table.rows] == ["descent", "exact", "kkt"]
    assert "not run: there is no network" in table.rows[2]
    assert any("descent" in sentence for sentence in report.verdict.sentences)
    assert "descent" in report.convergence[0].description
    assert report.charts[0].image.startswith("data:image/png;base64,")
    assert "exact" in render(report)


def test_the_truth_has_no_say_in_the_gallery_of_a_comparison(run, tmp_path):
    """Descent, with the better certificate, is shown though only exact found the truth."""
    copy = RunFolder(tmp_path / "copy")
    copy.save_target(run.load_target())
    copy.save_secret(run.load_secret())
    exact, descent = run.load_result("exact"), run.load_result("descent")
    copy.save_result(replace(exact, certificate=replace(exact.certificate, verdict="failed", predicted_errors=())))
    sure = replace(descent.certificate, verdict="approximate", predicted_errors=(0.05,) * 3)
    copy.save_result(replace(descent, certificate=sure))
    entries = [Entry(method, copy.load_result(method)).to_json() for method in ("exact", "descent")]
    files.write_json(copy.comparison[0], {"methods": entries})
    report = of_comparison(copy)
    assert "Recovered by descent." in report.samples_note
    assert report.verdict.level is Level.PARTIAL


def test_a_redacted_comparison_shows_no_sharp_picture(run):
    report, shown = of_comparison(run, redact=True), of_comparison(run)
    assert report.charts == ()
    sharp = {picture for each in shown.samples for picture in (each.picture, each.true_picture)}
    assert not sharp & {picture for each in report.samples for picture in (each.picture, each.true_picture)}
    assert {each.label for each in report.samples} == {None}


@pytest.mark.parametrize("name", ["../secret", "", "a/b"])
def test_a_comparison_that_names_a_path_is_refused(tmp_path, name):
    folder = RunFolder(tmp_path)
    files.write_json(folder.comparison[0], {"methods": [{"method": name, "ran": True, "reason": None}]})
    with pytest.raises(FileError, match="no name of a folder"):
        of_comparison(folder)


@pytest.fixture
def store(tmp_path):
    """A sweep of two attacks at two ratios: exact recovers everything at 2, one cell failed, one waits."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "sweep"))
    try:
        from stored_cells import finish
    finally:
        sys.path.pop(0)
    cells = Grid(data="sphere", ratio=[1, 2], attack=["exact", "descent"], seeds=2).cells()
    path = tmp_path / "grid.sqlite"
    with Store(path) as opened:
        opened.register("walls", cells)
        failing = cells[-1]
        for cell in cells[:-2]:
            good = cell.attack.method == "exact" and cell.ratio == 2
            finish(opened, cell, recovered=2 if good else 0, error=1e-6 if good else 0.9)
        opened.fail(failing.key, "InputError: <b>no</b>\nmore lines")
    return path


def test_a_sweep_is_summarised_with_its_failures(store):
    report = of_sweep(store)
    assert report.verdict.level is Level.NEUTRAL
    assert report.verdict.headline == "6 of 8 experiments are done, 1 failed."
    assert "exact: every sample came back from p/dn = 2 on." in report.verdict.sentences
    assert "descent: at no size did every sample come back; at best 0% did." in report.verdict.sentences
    summary, failures = report.tables
    assert len(summary.rows) == 4
    assert failures.rows[0][1] == "InputError: <b>no</b>"
    assert len(report.charts) == 2
    assert "<b>no" not in render(report)


def test_a_sweep_is_named_where_there_are_several(store):
    with Store(store) as opened:
        opened.register("other", Grid(data="sphere", ratio=1, attack="exact", seeds=1).cells())
    with pytest.raises(InputError, match="name one of: other, walls"):
        of_sweep(store)
    with pytest.raises(InputError, match="valid: other, walls"):
        of_sweep(store, "none")
    assert of_sweep(store, "other").title == "Sweep other"


def test_a_sweep_that_has_not_begun_is_reported(tmp_path):
    path = tmp_path / "empty.sqlite"
    with Store(path) as opened:
        opened.register("a", Grid(data="sphere", ratio=1, attack="exact", seeds=1).cells())
    report = of_sweep(path)
    assert report.charts == ()
    assert report.verdict.headline.startswith("0 of 1")
    render(report)


def test_the_forecast_is_not_needed():
    report = of_subject(subject_of(result_of(BARS, "approximate"), forecast=None))
    assert report.law is None
    assert ENOUGH.verdict not in {fact.explanation for fact in report.facts}


def test_a_diverged_attack_is_reported(run, tmp_path):
    copy = RunFolder(tmp_path / "copy")
    copy.save_target(run.load_target())
    copy.save_secret(run.load_secret())
    descent = run.load_result("descent")
    copy.save_result(replace(descent, samples=descent.samples * float("nan"), stop=Stop.DIVERGED))
    report = of_run(copy)
    assert report.verdict.level is Level.IN_WEIGHTS  # the training data explain the weights all the same
    assert "diverged" in report.samples_note
    assert any("not compared" in note for note in report.notes)
    json.dumps(report.to_json(), allow_nan=False)
    render(report)


def test_notes_of_the_subject_are_told_before_those_of_the_attack():
    report = of_subject(subject_of(result_of(BARS, "approximate", notes=("second",)), notes=("first",)))
    assert report.notes == ("first", "second")
