"""The verdict of a report in words, at every level, and where certificate and truth contradict each other."""

from dataclasses import replace

import pytest
import torch
from subjects import CAPTION, DIM, ENOUGH, ROWS, TOO_FEW, TRUTH, result_of, subject_of

from exhume import defences
from exhume.report import Level, of_subject, page
from exhume.report.assumptions import list_assumptions
from exhume.report.remedies import remedies_of
from exhume.report.verdict import percent, samples_in_words, verdict_of
from exhume.results.stop import Stop
from exhume.scoring.against_truth import score
from exhume.scoring.outcome import Outcome
from exhume.scoring.premise import LayerPremise, Premise
from exhume.target.diagnosis import Finding
from exhume.target.knowledge import Knowledge
from exhume.target.published import Count

SMALL, LARGE = 1e-6, 0.4
WRONG = torch.randn(TRUTH.shape, generator=torch.Generator().manual_seed(8))


def told(verdict):
    return " ".join((verdict.headline, *verdict.sentences))


def test_certified_samples_are_a_leak_without_the_truth():
    verdict = verdict_of(subject_of(result_of([SMALL] * ROWS, "exact")))
    assert verdict.level is Level.LEAK
    assert "all 4 samples that were looked for were recovered" in verdict.headline
    assert "were not given" in told(verdict)


def test_the_truth_confirms_a_leak():
    verdict = verdict_of(subject_of(result_of([SMALL] * ROWS, "exact"), truth=TRUTH))
    assert verdict.level is Level.LEAK
    assert "Compared with the training data that were given, all 4 training samples came back" in told(verdict)
    assert "contradicts" not in told(verdict)


def test_few_small_error_bars_are_partial():
    verdict = verdict_of(subject_of(result_of([SMALL, LARGE, LARGE, LARGE], "approximate")))
    assert verdict.level is Level.PARTIAL
    assert "some of its training data: 1 of 4 samples that were looked for was recovered" in verdict.headline


def test_half_of_the_samples_are_a_leak():
    verdict = verdict_of(subject_of(result_of([SMALL, SMALL, LARGE, LARGE], "approximate")))
    assert verdict.level is Level.LEAK


def premise(truth, others):
    return Premise((LayerPremise("the head", truth, others, 400),), non_members=True, causes=("as Adam does",))


def test_an_approximate_certificate_that_the_truth_contradicts_is_inconclusive():
    verdict = verdict_of(subject_of(result_of([1e-2] * ROWS, "approximate", samples=WRONG), truth=TRUTH))
    assert verdict.level is Level.INCONCLUSIVE
    assert "do not confirm any of them" in verdict.headline
    assert "one of the two is wrong" in told(verdict)
    assert "none of 4 training samples came back" in told(verdict)


def test_an_exact_certificate_stands_against_data_that_do_not_explain_the_weights():
    wrong = subject_of(result_of([SMALL] * ROWS, "exact", samples=WRONG), truth=TRUTH, premise=premise(0.8, 0.8))
    assert wrong.judgement.outcome is Outcome.RECOVERED
    assert "are not those that it was trained on" in verdict_of(wrong).headline


def test_a_certificate_is_wrong_if_the_given_data_explain_the_weights():
    subject = subject_of(result_of([SMALL] * ROWS, "exact", samples=WRONG), truth=TRUTH, premise=premise(0.01, 0.8))
    assert subject.judgement.outcome is Outcome.NOT_RECOVERED
    assert "certifies 4 samples, wrongly" in told(verdict_of(subject))


def test_a_certificate_that_the_truth_contradicts_on_some_samples_says_so():
    samples = torch.cat((TRUTH[:3], WRONG[3:]))
    verdict = verdict_of(subject_of(result_of([SMALL] * ROWS, "exact", samples=samples), truth=TRUTH))
    assert verdict.level is Level.LEAK
    assert "3 of 4 training samples were recovered" in verdict.headline
    assert "The truth contradicts the attack on 1 certified sample" in told(verdict)


def test_a_failed_certificate_that_the_truth_contradicts_is_partial_and_said_honestly():
    verdict = verdict_of(subject_of(result_of(verdict="failed"), truth=TRUTH))
    assert verdict.level is Level.PARTIAL
    assert "though the attack itself cannot tell" in verdict.headline
    assert CAPTION in told(verdict)


def test_error_bars_of_a_failed_certificate_are_not_believed():
    verdict = verdict_of(subject_of(result_of([SMALL] * ROWS, "failed")))
    assert verdict.level is Level.INCONCLUSIVE


def test_a_failed_attack_with_enough_equations_is_no_proof_of_safety():
    result = result_of(verdict="failed", samples=WRONG, stop=Stop.PASS_LIMIT, max_passes=100.0)
    verdict = verdict_of(subject_of(result, truth=TRUTH))
    assert verdict.level is Level.INCONCLUSIVE
    assert verdict.headline.startswith("Inconclusive: no training sample was recovered within the budget")
    assert "no proof of safety" in told(verdict)
    assert Stop.PASS_LIMIT.sentence in told(verdict)


NEAR = TRUTH + 0.3 * TRUTH.norm(dim=1, keepdim=True) * WRONG / WRONG.norm(dim=1, keepdim=True)


def test_samples_that_can_be_recognised_are_not_passed_over():
    result = result_of([], "failed", samples=NEAR)
    held_out = torch.randn(60, DIM, generator=torch.Generator().manual_seed(9))
    verdict = verdict_of(subject_of(result, truth=TRUTH, score=score(result, TRUTH, non_members=held_out)))
    assert verdict.level is Level.IN_WEIGHTS
    assert "may be recognised" in verdict.headline
    assert "The closest has an error of 30 %" in told(verdict)
    assert "60 samples that were not trained on" in told(verdict)


def test_nothing_is_recognised_by_closeness_alone():
    verdict = verdict_of(subject_of(result_of([], "failed", samples=NEAR), truth=TRUTH))
    assert verdict.level is Level.INCONCLUSIVE
    assert "recognised" not in told(verdict)


def test_data_that_explain_the_weights_are_a_leak_that_was_not_found():
    subject = subject_of(result_of(verdict="failed", samples=WRONG), truth=TRUTH, premise=premise(0.1, 0.8))
    verdict = verdict_of(subject)
    assert verdict.level is Level.IN_WEIGHTS
    assert verdict.headline == "The training data are in the weights, but this search did not recover them."
    assert "leave 0.1 of the displacement of the head unexplained" in told(verdict)


def test_data_that_explain_no_more_than_others_leave_the_outcome_open():
    subject = subject_of(result_of(verdict="failed", samples=WRONG), truth=TRUTH, premise=premise(0.7, 0.8))
    assert verdict_of(subject).level is Level.INCONCLUSIVE
    assert "The equation does not hold" in told(verdict_of(subject))
    assert "as Adam does" in told(verdict_of(subject))


def test_a_head_whose_start_is_unknown_is_named_where_an_attack_fails():
    failed = result_of([], "failed")
    unknown = replace(failed, knowledge=Knowledge(initial_head="unknown"))
    assert "before training were not given" in told(verdict_of(subject_of(unknown)))
    assert "before training were not given" not in told(verdict_of(subject_of(failed)))


FEW = Count(20, 64, ("head",), determined=False)


def test_fewer_equations_than_unknowns_in_all_layers_are_out_of_reach_and_warn_of_labels():
    result = result_of(verdict="failed", samples=WRONG, equations=20, unknowns=64)
    verdict = verdict_of(subject_of(result, forecast=TOO_FEW, count=FEW))
    assert verdict.level is Level.OUT_OF_REACH
    assert "Labels may still leak" in told(verdict)
    assert "20 equations for 64 unknown numbers" in told(verdict)


def test_fewer_equations_in_the_attacked_layer_alone_are_inconclusive():
    result = result_of(verdict="failed", samples=WRONG, equations=20, unknowns=64)
    enough = Count(4000, 64, ("first.weight", "head.weight"), determined=True)
    verdict = verdict_of(subject_of(result, forecast=TOO_FEW, count=enough))
    assert verdict.level is Level.INCONCLUSIVE
    assert "shows nothing of what the other published layers that moved in training hold" in told(verdict)


def test_a_leak_below_the_wall_of_the_head_is_a_leak():
    """Attacks that use other layers can succeed below the head's wall."""
    assert verdict_of(subject_of(result_of([SMALL] * ROWS, "exact"), forecast=TOO_FEW)).level is Level.LEAK


@pytest.mark.parametrize(("count", "level"), [(FEW, Level.OUT_OF_REACH), (None, Level.INCONCLUSIVE)])
def test_an_attack_that_could_not_be_run_is_told_with_its_reason(count, level):
    verdict = verdict_of(subject_of(None, forecast=TOO_FEW, count=count, reason="the sky fell"))
    assert verdict.level is level
    assert "the sky fell" in told(verdict)


def test_what_the_weights_leave_open_is_said():
    result = result_of([SMALL] * ROWS, "exact", signs_determined=False, norms_determined=False)
    text = told(verdict_of(subject_of(result, truth=-3 * TRUTH)))
    assert "a sample from its negative" in text
    assert "up to a common factor" in text
    assert "up to sign" in text


def test_known_samples_are_not_counted_as_recovered():
    result = result_of([SMALL], "exact", samples=TRUTH[:1], knowledge=Knowledge(num_samples=ROWS, samples=TRUTH[1:]))
    verdict = verdict_of(subject_of(result, truth=TRUTH))
    assert "the only unknown training sample was recovered" in verdict.headline


def test_counts_in_words():
    assert samples_in_words(3, 3) == "all 3 training samples"
    assert samples_in_words(0, 3) == "none of 3 training samples"
    assert [percent(share) for share in (0.1, 0.0123, 3e-4, 1e-9)] == ["10 %", "1.2 %", "0.03 %", "0.001 %"]


def outcome(defence, setting, recovered, held_out=0.1):
    utility = defences.Utility(held_out_error=held_out)
    return defences.Outcome(defence, setting, 1.0, recovered, ROWS, 0.0, 0.0, "exact", utility)


def remedies_with(*outcomes, bars=(SMALL,) * ROWS):
    return remedies_of(subject_of(result_of(bars, "exact"), defences=outcomes))


def test_remedies_of_a_leak_name_the_sizes_of_the_law():
    texts = {each.title: each.text for each in remedies_with()}
    assert "Below 69 of its 400 weights" in texts["Release fewer parameters of the head"]
    assert "From 25 samples on" in texts["Train on more samples"]


def test_what_was_measured_not_to_help_is_not_recommended():
    found = remedies_with(
        outcome("none", "as it is", 4), outcome("rounding", "int8", 4), outcome("dp-sgd", "epsilon 1", 3)
    )
    titles = [each.title for each in found]
    assert "Do not rely on: dp-sgd, rounding" in titles
    assert not any(title.startswith(("Round", "Train with differential privacy")) for title in titles)


def test_measured_defences_are_ranked_by_what_is_left_and_then_by_cost():
    found = remedies_with(
        outcome("none", "as it is", 4),
        outcome("pruning", "90% pruned", 2, held_out=0.2),
        outcome("noise", "noise 10%", 0, held_out=0.5),
        outcome("noise", "noise 5%", 0, held_out=0.3),
        outcome("coordinates", "1/8 of features", 0, held_out=0.4),
    )
    titles = [each.title for each in found[:3]]
    assert titles == [
        "Add noise to the released weights: noise 5%",
        "Release fewer coordinates of the head: 1/8 of features",
        "Prune the head: 90% pruned",
    ]
    assert "0 of 4 samples came back" in found[0].text
    assert "held-out error 0.3 instead of 0.1" in found[0].text
    assert not any(each.title == "Release fewer parameters of the head" for each in found)


def test_sizes_of_the_head_are_no_remedy_against_attacks_that_read_other_layers():
    found = remedies_of(subject_of(result_of([SMALL] * ROWS, "exact", method="subspace")))
    assert not any("parameters" in each.title or "samples" in each.title for each in found)


def test_a_defence_that_stopped_an_attack_is_not_called_a_proof():
    found = remedies_with(outcome("none", "as it is", 4), outcome("noise", "noise 30%", 0))
    assert "no proof that nothing can" in found[0].text


def test_the_strongest_setting_of_a_useless_family_is_named():
    weak, strong = (
        replace(outcome("rounding", name, 4), strength=at) for name, at in (("float16", 1.0), ("int8", 9.0))
    )
    found = remedies_with(outcome("none", "as it is", 4), weak, strong)
    assert "4 of 4 samples still came back at int8" in found[0].text


UNMIXED = {"rank": ROWS, "fall": 1e4, "singular_values": [1.0] * ROWS + [1e-4] * 3, "zero_shares": [0.4] * ROWS}


def unmixed(bars=(SMALL,) * ROWS, verdict="exact", **changes):
    return result_of(bars, verdict, method="unmix", evidence=UNMIXED, **changes)


def test_a_leak_of_the_first_layer_says_that_the_forecast_counts_the_head_only():
    sentence = "The forecast (labels only) counts the head only; the first layer gave the samples away."
    assert TOO_FEW.verdict == "labels only"
    assert sentence in verdict_of(subject_of(unmixed(), forecast=TOO_FEW)).sentences
    of_the_head = verdict_of(subject_of(result_of([SMALL] * ROWS, "exact"), forecast=TOO_FEW))
    assert "counts the head only" not in told(of_the_head)
    assert "counts the head only" not in told(verdict_of(subject_of(unmixed(), forecast=ENOUGH)))


def test_a_failed_unmixing_doubts_the_training_of_the_first_layer():
    assert "all weights of the first layer" in told(verdict_of(subject_of(unmixed((), "failed"))))
    assert "all weights of the head" in told(verdict_of(subject_of(result_of([], "failed"))))


def test_remedies_of_an_unmixed_model_take_away_what_the_attack_needs():
    found = remedies_of(subject_of(unmixed(), forecast=TOO_FEW))
    titles = " ".join(each.title for each in found)
    for words in ("initial weights of the first layer", "Adam", "Put BatchNorm between", "each neuron"):
        assert words in titles
    assert "smooth activation" not in titles
    assert any("A smooth activation" in each.text and "no remedy" in each.text for each in found)
    assert "find_seed" in found[0].text
    assert "Keep these sizes" not in titles  # the head's sizes did not protect
    assert titles.count("to yourself") == 1


def test_nothing_that_needs_zeros_is_advised_where_the_attack_did_without():
    smooth = {name: UNMIXED[name] for name in ("rank", "fall", "singular_values")}
    found = remedies_of(subject_of(replace(unmixed(verdict="approximate"), evidence=smooth), forecast=TOO_FEW))
    words = " ".join(f"{each.title} {each.text}" for each in found)
    assert "Adam" in words
    for wrong in ("smooth activation", "BatchNorm", "neurons a sample"):
        assert wrong not in words


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ({"zero_shares": [0.4], "initial_weights": ["0.weight", "0.bias"]}, "were not used"),
        (
            {"zero_shares": [0.4], "initial_weights": ["0.weight", "0.bias", "2.weight"]},
            "could be read where the zeros do not tell",
        ),
        ({"initial_weights": ["0.weight", "0.bias", "2.weight"]}, "were known and needed"),
    ],
)
def test_the_page_says_which_initial_weights_an_unmixing_could_read(evidence, words):
    facts = {each.name: each.value for each in list_assumptions(replace(unmixed(), evidence=evidence))}
    assert "first layer before training were known" in facts["First layer before training"]
    assert words in facts["First layer before training"]


def test_remedies_against_unmixing_are_for_models_that_it_got_samples_from():
    for result in (unmixed((), "failed"), result_of([SMALL] * ROWS, "exact")):
        assert not any("Adam" in each.title for each in remedies_of(subject_of(result)))


def test_words_about_the_optimiser_follow_from_what_the_weights_show():
    result = result_of(stop=Stop.PASS_LIMIT)

    def said(*findings):
        return told(verdict_of(subject_of(result, diagnosis=findings)))

    assert "with Adam and the like it fails" in said()
    assert "with Adam and the like it fails" in said(Finding("optimiser", "unknown", "It cannot be told."))
    assert "moved as Adam moves them, so that it fails" in said(Finding("optimiser", "adaptive", "By Adam."))
    assert "Adam" not in said(Finding("optimiser", "gradient", "By SGD."))
    assert "Adam" not in said(Finding("optimiser", "head only", "The head alone."))
    result = result_of(stop=Stop.TIME_LIMIT, method="replay")
    assert "Adam" not in said(Finding("optimiser", "adaptive", "By Adam."))  # it is told the optimiser


def test_the_next_attack_is_advised_by_the_diagnosis_and_by_a_spent_budget():
    missing = Finding("missing", "initial weights", "They are not known.", "Give --initial.")

    def advised(stop, *findings):
        subject = subject_of(result_of(stop=stop), diagnosis=findings)
        return next(each.text for each in remedies_of(subject) if each.title == "Attack again before you publish")

    assert "Give --initial. Give it more budget" in advised(Stop.PASS_LIMIT, missing)
    assert "budget" not in advised(Stop.CONVERGED, missing)
    assert "try --method NAME (" in advised(Stop.CONVERGED)
    of_optimiser = Finding("optimiser", "adaptive", "By Adam.")
    of_adam = advised(Stop.PASS_LIMIT, of_optimiser)
    assert "assume training by SGD" in of_adam
    assert "budget" not in of_adam  # more of it does not help
    replayed = subject_of(result_of(stop=Stop.TIME_LIMIT, method="replay"), diagnosis=[of_optimiser])
    assert any("Give it more budget" in each.text for each in remedies_of(replayed))


def test_the_page_shows_the_diagnosis_with_its_advice_and_no_section_without_one():
    missing = Finding("missing", "initial weights", "They are <not> known.", "Give --initial.")
    shown = page.render(of_subject(subject_of(result_of(), diagnosis=[missing])))
    assert "What the weights show" in shown
    assert "They are &lt;not&gt; known." in shown
    assert "Give --initial." in shown
    assert "What the weights show" not in page.render(of_subject(subject_of(result_of())))
