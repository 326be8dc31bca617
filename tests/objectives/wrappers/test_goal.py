"""Objectives on labels by name: the bits of the inner objective, and sums of several goals on one scale."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.objectives.base import Objective, PreparedSum, goal_totals, scales_in, with_scales
from tests.objectives import test_objectives as contract_suite
from tests.refusals import refusal, refuses

OFFSETS = contract_suite.OFFSETS
SCORES, LABELS = contract_suite.example()
RNG = np.random.default_rng(3)
GOALS: dict[str, Any] = {name: RNG.integers(0, 3, LABELS.size).astype(float) for name in ("purchase", "sale", "other")}


NAMED = {f"more_labels.{name}": goal for name, goal in GOALS.items()}


def derivatives(text: str, **columns: Any) -> rw.objectives.Derivatives:
    arguments = {"labels": LABELS, "offsets": OFFSETS, "stream": rw.Stream(7, 2, contract_suite.IDS)}
    return rw.objective(text)(SCORES, **arguments | columns)  # type: ignore[arg-type]


def same(one: rw.objectives.Derivatives, other: rw.objectives.Derivatives) -> None:
    for actual, expected in zip(one, other, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("text", contract_suite.PLAIN + contract_suite.WRAPPED[::5])
def test_alone_it_is_the_inner_objective_on_these_labels(text):
    plain = derivatives(text, labels=GOALS["purchase"])
    same(derivatives(f"on(purchase, {text})", more_labels=GOALS), plain)
    same(derivatives(f"on(other, on(purchase, {text}))", **NAMED), plain)


def test_wrappers_outside_and_inside():
    columns = {"more_labels": GOALS, "document_weights": 1.0 + GOALS["sale"]}
    for text in ("stochastic({})", "bounded({})", "bounded(stochastic({}, samples=2), method=expectation)"):
        metric = text.format("approx_ndcg")
        plain = derivatives(metric, labels=GOALS["purchase"])
        same(derivatives(text.format("on(purchase, approx_ndcg)"), more_labels=GOALS), plain)
        same(derivatives(f"on(purchase, {metric})", more_labels=GOALS), plain)
    weighed = derivatives("xendcg", labels=GOALS["purchase"], document_weights=columns["document_weights"])
    same(derivatives("on(purchase, xendcg)", **columns), weighed)
    # The weight is that of the labels outside, the loss that of the labels inside.
    inside, outside = (
        derivatives("on(purchase, ranknet)", more_labels=GOALS),
        derivatives("weighted(ranknet, by=relevant)"),
    )
    both = derivatives("weighted(on(purchase, ranknet), by=relevant)", more_labels=GOALS)
    counts = np.add.reduceat(LABELS > 0, OFFSETS[:-1])
    np.testing.assert_allclose(both.value, inside.value * counts)
    assert not np.allclose(both.value, outside.value)


def softmax_gradient(labels: Any) -> Any:
    """Softmax cross entropy at equal scores, list by list: 1/n minus the share of the label."""
    lists = [labels[first:last] for first, last in pairwise(OFFSETS)]
    return np.concatenate([1 / y.size - y / y.sum() if y.any() and y.size > 1 else 0.0 * y for y in lists])


def test_goals_are_put_on_the_scale_of_the_first():
    first, second = softmax_gradient(LABELS), softmax_gradient(GOALS["purchase"])
    scale = np.abs(first).sum() / np.abs(second).sum()
    zeros = np.zeros(LABELS.size)
    for factor in (0.5, 250.0):  # whatever the scale of the second goal is by itself
        inner = f"on(purchase, {factor}*softmax_ce)"
        objective = rw.objective(f"2.0*softmax_ce + 0.3*{inner}")
        assert rw.objective(repr(objective)) == objective
        actual = objective(zeros, LABELS, OFFSETS, more_labels=GOALS).gradient
        np.testing.assert_allclose(actual, 2.0 * first + 0.3 * scale * second, atol=1e-14)
    plain = rw.objective("0.5*on(purchase, softmax_ce)")(zeros, LABELS, OFFSETS, more_labels=GOALS).gradient
    np.testing.assert_allclose(plain, 0.5 * second, atol=1e-14)  # one goal has nothing to be compared with
    inside = rw.objective("on(purchase, softmax_ce + 0.5*ranknet)")
    assert not goal_totals(inside.prepare(LABELS, OFFSETS, **NAMED))


def test_a_goal_without_gradient_has_scale_1():
    nothing = {"purchase": np.zeros(LABELS.size)}
    objective = rw.objective("on(purchase, softmax_ce) + 0.5*ranknet")
    actual = objective(SCORES, LABELS, OFFSETS, more_labels=nothing).gradient
    np.testing.assert_array_equal(actual, 0.5 * derivatives("ranknet").gradient)


@pytest.mark.parametrize("text", ["xendcg + 0.3*on(purchase, plrank(samples=5))", *contract_suite.SCALED])
def test_scales_do_not_depend_on_partitions_or_the_order_of_queries(text):
    def measured(parts: list[Any]) -> Objective:
        def measure(objective: Objective) -> Any:
            totals = []
            for part in parts:
                rows = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in part])
                offsets = np.concatenate(([0], np.cumsum(np.diff(OFFSETS)[part])))
                goals = {name: goal[rows] for name, goal in NAMED.items()}
                totals.append(goal_totals(objective.prepare(LABELS[rows], offsets, **goals)))
            return totals

        return with_scales(rw.objective(text), measure)

    whole = measured([np.arange(OFFSETS.size - 1)])
    scales = scales_in(whole)
    assert len({*scales.values()} - {1.0}) >= 1
    assert scales == scales_in(measured([np.array([3, 4, 0]), np.array([7, 1]), np.array([2, 6, 5])]))
    assert whole == rw.objective(text)  # scales are no setting
    assert not whole.couples_queries
    of_all = [one(SCORES, LABELS, OFFSETS, rw.Stream(1), more_labels=GOALS) for one in (rw.objective(text), whole)]
    same(*of_all)  # one preparation of all queries has these scales


def test_queries_count_by_their_weights():
    objective = rw.objective("softmax_ce + on(purchase, ranknet)")
    prepared = objective.prepare(LABELS, OFFSETS, **NAMED)
    totals: list[tuple[int, ...]] = []
    for number in range(OFFSETS.size - 1):
        rows = slice(*OFFSETS[number : number + 2])
        goals = {name: goal[rows] for name, goal in NAMED.items()}
        part = objective.prepare(LABELS[rows], [0, rows.stop - rows.start], **goals)
        totals.append(*goal_totals(part).values())
    weights = np.arange(OFFSETS.size - 1, dtype=np.float64) % 3  # 0, 1 or 2
    expected = weights @ np.array(totals, np.float64)
    assert goal_totals(prepared, weights)[repr(objective)] == pytest.approx(tuple(expected))


def test_a_mini_batch_has_the_scale_of_all_queries():
    prepared = rw.objective("softmax_ce + 0.3*on(purchase, ranknet)").prepare(LABELS, OFFSETS, **NAMED)
    part = prepared.take([4])
    assert isinstance(part, PreparedSum)
    assert isinstance(prepared, PreparedSum)
    assert part.factors == prepared.factors
    rows = slice(OFFSETS[4], OFFSETS[5])
    np.testing.assert_array_equal(part(SCORES[rows]).gradient, prepared(SCORES).gradient[rows])


def test_torch():
    torch = pytest.importorskip("torch")
    objective = rw.objective("softmax_ce + 0.3*on(purchase, ranknet)")
    scores = torch.tensor(SCORES, requires_grad=True)
    goals = {name: torch.tensor(goal) for name, goal in GOALS.items()}
    rw.torch_loss(objective, reduction="sum")(scores, torch.tensor(LABELS), OFFSETS, more_labels=goals).backward()
    expected = objective(SCORES, LABELS, OFFSETS, more_labels=GOALS).gradient
    np.testing.assert_allclose(scores.grad.numpy(), expected, atol=1e-14)
    sizes = np.diff(OFFSETS)
    mask = np.arange(sizes.max()) < sizes[:, None]
    padded = {name: torch.zeros(mask.shape, dtype=torch.float64) for name in ("labels", *GOALS)}
    for name, column in {"labels": LABELS, **GOALS}.items():
        padded[name][torch.tensor(mask)] = torch.tensor(column)
    at = torch.zeros(mask.shape, dtype=torch.float64)
    at[torch.tensor(mask)] = torch.tensor(SCORES)
    at.requires_grad_()
    labels = padded.pop("labels")
    rw.torch_loss(objective, reduction="sum").padded(at, labels, torch.tensor(mask), more_labels=padded).backward()
    np.testing.assert_allclose(at.grad.numpy()[mask], expected, atol=1e-14)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("on(purchase)", {"what": "cannot build on", "got": "…'inner'"}),
        (
            "on('net sales', xendcg)",
            {"what": "…must be an identifier…", "got": "'net sales'", "hint": "rename it to 'net_sales'"},
        ),
        ("on(3, xendcg)", {"what": "…must be an identifier…", "got": "3"}),
        ("on(purchase, xendgc)", {"what": "unknown objective", "got": "'xendgc'"}),
    ],
)
def test_expressions_that_are_rejected(text, fields):
    refuses(lambda: rw.objective(text), **fields)


def test_labels_that_are_missing():
    for text in ("on(sales, xendcg)", "xendcg + on(sales, xendcg)", "weighted(xendcg + on(sales, xendcg))"):
        with refusal(what="the data have no labels called 'sales'", got="more_labels: 'purchase', 'sale', 'other'"):
            derivatives(text, more_labels=GOALS)
    with refusal(what="the data have no labels called 'sale'", got="more_labels: none"):
        derivatives("xendcg + on(sale, xendcg)")
    with refusal(what="labels must be at least 0"):
        derivatives("on(sale, xendcg)", more_labels={"sale": -GOALS["sale"]})
    with refusal(what="clickwise(on(sale, xendcg)) takes no more_labels.purchase"):
        derivatives("clickwise(on(sale, xendcg))", more_labels=GOALS)
    assert repr(rw.objectives.on("sale", rw.objectives.XENDCG())) == "on(sale, xendcg)"
    assert rw.objectives.on("sale", rw.objectives.XENDCG()) == rw.objective("on('sale', xendcg)")
