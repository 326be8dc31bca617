"""Distillation: the losses of a teacher's scores keep the contract, and columns go to the terms that read them."""

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.test_objectives import DISTILLED, IDS, OFFSETS, SIZES, example, stream
from tests.refusals import refusal, refuses

TEACHER = np.random.default_rng(9).normal(scale=2.0, size=OFFSETS[-1])


def at(text: str, scores, teacher=TEACHER, **columns):
    return rw.objective(text)(scores, example()[1], OFFSETS, stream(), teacher_scores=teacher, **columns)


def softmax(values):
    powers = np.exp(values - values.max())
    return powers / powers.sum()


@pytest.mark.parametrize("temperature", [1.0, 0.5, 4.0])
def test_distil_is_the_cross_entropy_written_out(temperature):
    scores, _ = example()
    actual = at(f"distil(temperature={temperature})", scores)
    for q in range(len(SIZES)):
        part = slice(OFFSETS[q], OFFSETS[q + 1])
        phi, rho = softmax(TEACHER[part] / temperature), softmax(scores[part] / temperature)
        np.testing.assert_allclose(actual.value[q], -(temperature**2) * (phi * np.log(rho)).sum(), atol=1e-12)
        np.testing.assert_allclose(actual.gradient[part], temperature * (rho - phi), atol=1e-12)
        np.testing.assert_allclose(actual.hessian[part], rho * (1.0 - rho), atol=1e-12)


def test_margin_mse_is_the_mean_over_all_pairs():
    scores, _ = example()
    actual = at("margin_mse", scores)
    for q, size in enumerate(SIZES):
        gap = (scores - TEACHER)[OFFSETS[q] : OFFSETS[q + 1]]
        pairs = [(gap[i] - gap[j]) ** 2 for i in range(size) for j in range(i)]
        np.testing.assert_allclose(actual.value[q], np.mean(pairs) if pairs else 0.0, atol=1e-12)


@pytest.mark.parametrize("text", DISTILLED)
def test_a_constant_of_the_teacher_changes_nothing(text):
    scores, _ = example(1)
    shift = np.repeat(2.0 ** np.arange(len(SIZES)), SIZES)
    shift[OFFSETS[4] :] = -4096.0
    for before, after in zip(at(text, scores), at(text, scores, TEACHER + shift), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-9 * max(1.0, np.abs(before).max()))


@pytest.mark.parametrize("text", DISTILLED[:4])
def test_the_teachers_own_scores_are_the_minimum(text):
    at_teacher = at(text, TEACHER + np.repeat(np.arange(len(SIZES)), SIZES))
    np.testing.assert_allclose(at_teacher.gradient, 0.0, atol=1e-12)
    assert (at_teacher.value <= at(text, example()[0]).value + 1e-12).all()


@pytest.mark.parametrize("text", DISTILLED)
def test_extremes_stay_finite_and_one_document_is_nothing(text):
    rng = np.random.default_rng(0)
    for size in (37.0, 4000.0, 1e100, 1e308):
        for student, teacher in ((size, 1.0), (1.0, size), (size, size), (size, -size)):
            scores = rng.permutation(np.linspace(-1.0, 1.0, OFFSETS[-1]))
            for part in at(text, student * scores, teacher * scores):
                assert np.isfinite(part).all()
                assert np.isfinite(part.astype(np.float32)).all()
    actual = rw.objective(text)([4000.0], [2.0], [0, 1], rw.Stream(1), teacher_scores=[-4000.0])
    for part in actual:
        np.testing.assert_array_equal(part, 0.0)


@pytest.mark.parametrize("text", DISTILLED)
def test_a_mini_batch_takes_its_part_of_the_teacher(text):
    scores, _ = example(3)
    full = at(text, scores)
    turned = np.array([3, 7, 0, 2, 6, 4, 1, 5])
    rows = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in turned])
    prepared = rw.objective(text).prepare(example()[1], OFFSETS, teacher_scores=TEACHER).take(turned)
    other = prepared(scores[rows], rw.Stream(5, 0, IDS[turned]))
    np.testing.assert_array_equal(other.value, full.value[turned])
    for name in ("gradient", "hessian", "numerator"):
        np.testing.assert_array_equal(getattr(other, name), getattr(full, name)[rows])


@pytest.mark.parametrize("text", DISTILLED)
def test_the_public_checks_pass(text):
    assert rw.objective(text).reads == ("teacher_scores",)
    assert rw.objectives.check_objective(text).passed


def test_a_high_temperature_is_margin_mse():
    """T (ρ − φ) goes to (d − d̄) / n, a quarter of margin_mse's gradient but for (n − 1) / n."""
    scores, _ = example()
    hot, margins = at("distil(temperature=10000.0)", scores).gradient, at("margin_mse", scores).gradient
    sizes = np.repeat(SIZES, SIZES)
    np.testing.assert_allclose(4.0 * hot * sizes, margins * (sizes - 1), atol=1e-2)


def test_a_sum_passes_columns_to_the_terms_that_read_them():
    scores, labels = example()
    groups = np.arange(OFFSETS[-1]) % 2
    columns = {"teacher_scores": TEACHER, "groups": groups}
    text = "0.5*distil + 0.25*fair(0.5*margin_mse + lambdarank, weight=0.0) + xendcg(gamma=one)"
    objective = rw.objective(text)
    assert objective.reads == ("teacher_scores", "groups")
    actual = objective(scores, labels, OFFSETS, stream(), **columns)
    parts = [
        0.5 * at("distil", scores).gradient,
        0.125 * at("margin_mse", scores).gradient,
        0.25 * rw.objectives.LambdaRank()(scores, labels, OFFSETS).gradient,
        rw.objectives.XENDCG(gamma="one")(scores, labels, OFFSETS).gradient,
    ]
    np.testing.assert_allclose(actual.gradient, sum(parts), atol=1e-12)
    with refusal(what="lambdarank takes no teacher_scores", hint="…go to Distil and MarginMSE…"):
        rw.objective("lambdarank + softmax_ce")(scores, labels, OFFSETS, teacher_scores=TEACHER)
    with refusal(what="distil takes no groups"):
        rw.objective("distil + softmax_ce")(scores, labels, OFFSETS, **columns)


def test_errors():
    scores, labels = example()
    for text in ("distil", "margin_mse", "0.5*distil + lambdarank"):
        with refusal(what="…needs the teacher's score of every document", hint="set teacher_score=…"):
            rw.objective(text)(scores, labels, OFFSETS)
    unknown = TEACHER.copy()
    unknown[3] = np.nan
    with refusal(what="teacher scores must be finite", got="nan", where="row 3 (query number 2)"):
        at("distil", scores, unknown)
    refuses(lambda: at("margin_mse", scores, [1.0, 2.0]), what="teacher scores must be one number per document")
    for wrong in ("0.0", "-1.0", "1e-300", "1e300"):
        with refusal(what="temperature must be a number in [1e-06, 1e+06]"):
            rw.objective(f"distil(temperature={wrong})")
    refuses(lambda: rw.objectives.Distil(newton="exact"), what="unknown newton")
    assert rw.objective("stochastic(distil(temperature=3.0))").noise_scale == 1.5  # type: ignore[attr-defined]
