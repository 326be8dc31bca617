"""Objectives as losses of torch: the same numbers, reductions, padded batches, errors."""

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.objectives.ragged import Derivatives
from tests.objectives.test_objectives import ALL, DIFFERENTIABLE, OFFSETS, SIZES, example, stream, with_fixed_weights
from tests.refusals import refusal, refuses

WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0, 0.25, 1.5])
FEW = ["softmax_ce", "approx_ndcg", "stochastic(plrank(samples=20), samples=2)", "0.7*xendcg + 0.3*ranknet"]


def example_tensors(dtype=torch.float64) -> tuple[Any, Any, Any]:
    scores, labels = example()
    return torch.tensor(scores, dtype=dtype, requires_grad=True), torch.tensor(labels), torch.tensor(OFFSETS)


def pad(values: Any, filler: float) -> Any:
    """One row per query, written as a loop."""
    flat = torch.as_tensor(values).detach()
    rows = torch.full((len(SIZES), max(SIZES)), filler, dtype=flat.dtype)
    for q, size in enumerate(SIZES):
        rows[q, :size] = flat[OFFSETS[q] : OFFSETS[q] + size]
    return rows


MASK = torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]


# The same numbers


@pytest.mark.parametrize("text", ALL)
def test_value_and_gradient_are_the_objectives_own(text):
    scores, labels, offsets = example_tensors()
    expected = rw.objective(text)(scores.detach().numpy(), labels.numpy(), OFFSETS, stream())
    value = rw.torch_loss(text, "none")(scores, labels, offsets, stream=stream())
    assert value.dtype == torch.float64
    assert value.shape == (len(SIZES),)
    value.sum().backward()
    # To rounding: without a Hessian sums may be added up in another order.
    np.testing.assert_allclose(value.detach(), expected.value, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(scores.grad, expected.gradient, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("text", DIFFERENTIABLE)
def test_gradcheck(text):
    # By numbers, through the scores and through the weights at once.
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss(with_fixed_weights(rw.objective(text)))
    weights: Any = torch.tensor(WEIGHTS + 0.1, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s, w: loss(s, labels, offsets, w, stream()), (scores, weights), eps=1e-5, atol=1e-5
    )


def plain_approx_ndcg(scores, labels, eta=10.0):
    above = torch.sigmoid(eta * (scores[None, :] - scores[:, None]))
    ranks = 1.0 + above.sum(1) - above.diagonal()
    gains = 2.0**labels - 1.0
    ideal = (gains.sort(descending=True).values / torch.log2(torch.arange(2.0, labels.numel() + 2.0))).sum()
    return -(gains / torch.log2(1.0 + ranks)).sum() / ideal if ideal > 0 and labels.numel() > 1 else 0.0 * scores.sum()


def plain_listnet(scores, labels):
    return -(torch.softmax(labels, 0) * torch.log_softmax(scores, 0)).sum()


def plain_softmax_ce(scores, labels):
    share = labels / labels.sum() if labels.sum() > 0 else labels
    return torch.nn.functional.cross_entropy(scores[None], share[None]) if scores.numel() > 1 else 0.0 * scores.sum()


def plain_ranknet(scores, labels):
    wins = labels[:, None] > labels[None, :]
    return torch.nn.functional.softplus(-(scores[:, None] - scores[None, :])[wins]).sum()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("approx_ndcg", plain_approx_ndcg),
        ("listnet", plain_listnet),
        ("softmax_ce", plain_softmax_ce),
        ("ranknet", plain_ranknet),
    ],
)
def test_the_formula_written_in_torch(text, plain):
    scores, labels, offsets = example_tensors()
    ours = rw.torch_loss(text, "none")(scores, labels, offsets)
    theirs = torch.stack([plain(scores[a:b], labels[a:b]) for a, b in itertools.pairwise(OFFSETS)])
    np.testing.assert_allclose(ours.detach(), theirs.detach(), atol=1e-12)
    weights = torch.tensor(WEIGHTS)
    (ours_by_score,) = torch.autograd.grad((ours * weights).sum(), scores)
    (theirs_by_score,) = torch.autograd.grad((theirs * weights).sum(), scores)
    np.testing.assert_allclose(ours_by_score, theirs_by_score, atol=1e-12)


# Reductions and weights


def test_reductions_by_hand():
    scores: Any = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    two, three = np.log(2.0), np.log(3.0)  # the cross entropy of one relevant document among equals

    def loss(reduction, weights=None):
        return rw.torch_loss("softmax_ce", reduction)(scores, [1, 0, 0, 0, 1], [0, 2, 5], weights)

    np.testing.assert_allclose(loss("none").detach(), [two, three])
    np.testing.assert_allclose(loss("none", [3.0, 1.0]).detach(), [3 * two, three])
    assert loss("sum").item() == pytest.approx(two + three)
    assert loss("sum", [3.0, 1.0]).item() == pytest.approx(3 * two + three)
    assert loss("mean").item() == pytest.approx((two + three) / 2)
    assert rw.torch_loss("softmax_ce").reduction == "mean"
    mean = loss("mean", torch.tensor([3, 1]))
    assert mean.item() == pytest.approx((3 * two + three) / 4)
    mean.backward()
    expected = [-3 / 8, 3 / 8, 1 / 12, 1 / 12, -1 / 6]  # 3/4 of ±1/2, and 1/4 of 1/3, 1/3, 1/3 − 1
    np.testing.assert_allclose(scores.grad, expected)


def test_gradients_flow_through_weights():
    scores, labels, offsets = example_tensors()
    weights: Any = torch.tensor(WEIGHTS, requires_grad=True)
    value = rw.torch_loss("ranknet", "none")(scores.detach(), labels, offsets).numpy()
    rw.torch_loss("ranknet")(scores.detach(), labels, offsets, weights).backward()
    mean = (WEIGHTS * value).sum() / WEIGHTS.sum()
    np.testing.assert_allclose(weights.grad, (value - mean) / WEIGHTS.sum(), atol=1e-14)


def test_zero_weights_and_empty_batches_give_zero():
    scores: Any = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = rw.torch_loss("ranknet")(scores, [1, 0], [0, 2], weights=[0.0])
    loss.backward()
    assert loss.item() == 0.0
    np.testing.assert_array_equal(scores.grad, [0.0, 0.0])


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_empty_batch(text, reduction):
    scores: Any = torch.zeros(0, requires_grad=True)
    loss = rw.torch_loss(text, reduction)(scores, [], [0], stream=rw.Stream(0))
    loss.sum().backward()
    assert loss.shape == ((0,) if reduction == "none" else ())
    assert loss.sum() == 0.0
    assert scores.grad.shape == (0,)


def test_queries_of_one_document():
    scores: Any = torch.tensor([3.0, -2.0], requires_grad=True)
    rw.torch_loss("approx_ndcg")(scores, [1, 2], [0, 1, 2]).backward()
    np.testing.assert_array_equal(scores.grad, [0.0, 0.0])


# Padded batches


@pytest.mark.parametrize("text", FEW)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_padded_is_ragged(text, reduction):
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss(text, reduction)
    ragged = loss(scores, labels, offsets, WEIGHTS, stream())
    ragged.sum().backward()
    padded = pad(scores, np.nan).requires_grad_(True)  # what is padding is never looked at
    actual = loss.padded(padded, pad(labels, -1.0), MASK, WEIGHTS, stream())
    actual.sum().backward()
    np.testing.assert_array_equal(actual.detach(), ragged.detach())
    np.testing.assert_array_equal(padded.grad, pad(scores.grad, 0.0))


def test_padding_anywhere_in_a_row():
    scores: Any = torch.tensor([[7.0, 0.0, 1.0], [2.0, 7.0, 3.0]], requires_grad=True)
    mask = np.array([[False, True, True], [True, False, True]])
    flat: Any = torch.tensor([0.0, 1.0, 2.0, 3.0], requires_grad=True)
    loss = rw.torch_loss("softmax_ce")
    loss(flat, [1, 0, 1, 0], [0, 2, 4]).backward()
    loss.padded(scores, [[0, 1, 0], [1, 0, 0]], mask).backward()
    np.testing.assert_array_equal(scores.grad[torch.tensor(mask)], flat.grad)
    assert scores.grad[0, 0] == scores.grad[1, 1] == 0.0


def test_columns_of_documents():
    scores, labels, offsets = example_tensors()
    chances = np.random.default_rng(1).random(OFFSETS[-1])
    expected = rw.objectives.SoftmaxCE()(scores.detach().numpy(), labels.numpy(), OFFSETS, document_weights=chances)
    loss = rw.torch_loss(rw.objectives.SoftmaxCE(), "none")
    ragged = loss(scores, labels, offsets, document_weights=torch.tensor(chances))
    padded = loss.padded(pad(scores, 0.0), pad(labels, 0.0), MASK, document_weights=pad(chances, -5.0))
    np.testing.assert_array_equal(ragged.detach(), expected.value)
    np.testing.assert_array_equal(padded, expected.value)
    rewards = torch.rand(scores.numel(), dtype=torch.bfloat16)
    actual = rw.torch_loss("plrank", "none")(scores, labels, offsets, stream=stream(), document_rewards=rewards)
    own = rw.objectives.PLRank()(
        scores.detach().numpy(), labels.numpy(), OFFSETS, stream(), document_rewards=rewards.double().numpy()
    )
    np.testing.assert_array_equal(actual.detach(), own.value)


# Errors say what to do


def test_errors():
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss("ranknet")
    with refusal(what="scores must be flat, one number per document", got="shape (33, 1)…", hint="…squeeze(-1)…padded"):
        loss(scores[:, None], labels, offsets)
    with refusal(what="offsets must cover every row…", got="0 to 32 for 33 rows"):
        loss(scores, labels, torch.tensor([0, 32]))
    with refusal(what="scores must be finite", got="nan", where="row 3 (query number 2)"):
        loss(scores + torch.tensor([0.0] * 3 + [np.nan] + [0.0] * 29), labels, offsets)
    with refusal(what="weights must be one number per query", got="one per document", hint="set document_weights=…"):
        loss(scores, labels, offsets, torch.ones(33))
    with refusal(what="weights must be one number per query", got="shape (32,) for 8 queries"):
        loss(scores, labels, offsets, torch.ones(32))
    with refusal(what="weights must be finite and not negative", got="-1.0", where="query number 1"):
        loss(scores, labels, offsets, [1.0, -1.0, *[1.0] * 6])
    with refusal(what="unknown reduction", got="'average'", hint="choose one of mean, sum, none"):
        rw.torch_loss("ranknet", "average")
    with refusal(what="unknown objective", got="'ranknett'", hint="did you mean 'ranknet'"):
        rw.torch_loss("ranknett")
    refuses(lambda: loss(scores, labels, offsets, document_weights=labels), what="ranknet takes no document_weights")


@pytest.mark.parametrize("text", ["xendcg", "stochastic(approx_ndcg, samples=2)", "plrank(samples=5)"])
def test_without_a_stream_each_step_draws_anew_and_seeds_repeat(text):
    scores, labels, offsets = example_tensors()

    def steps(loss, count):
        return [loss(scores, labels, offsets).item() for _ in range(count)]

    loss = rw.torch_loss(text, seed=3)
    first = steps(loss, 4)
    assert len(set(first)) == 4
    assert steps(rw.torch_loss(text, seed=3), 4) == first
    assert steps(rw.torch_loss(text, seed=4), 1) != first[:1]
    numbers = rw.Stream(3, round=2)  # what a step draws can be had again
    assert loss(scores, labels, offsets, stream=numbers).item() == first[2]


def test_the_step_is_saved_with_the_modules_state_and_evaluation_does_not_move_it(tmp_path):
    scores, labels, offsets = example_tensors()
    module = torch.nn.ModuleDict({"net": torch.nn.Linear(1, 1), "loss": rw.torch_loss("xendcg", seed=3)})
    loss = module["loss"]
    for _ in range(3):
        loss(scores, labels, offsets)
    torch.save(module.state_dict(), tmp_path / "state.pt")
    module.eval()
    same = {loss(scores, labels, offsets).item() for _ in range(2)}
    following = loss.train()(scores, labels, offsets).item()
    assert same == {following}
    resumed = torch.nn.ModuleDict({"net": torch.nn.Linear(1, 1), "loss": rw.torch_loss("xendcg")})
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert resumed["loss"](scores, labels, offsets).item() == following


def test_a_padded_batch_draws_what_the_ragged_one_draws():
    scores, labels, offsets = example_tensors()
    ragged, padded = (rw.torch_loss("xendcg", seed=3) for _ in range(2))
    values = [ragged(scores, labels, offsets).item() for _ in range(2)]
    assert [padded.padded(pad(scores, 0.0), pad(labels, 0.0), MASK).item() for _ in range(2)] == values


def test_errors_of_padded_batches():
    loss = rw.torch_loss("ranknet")
    square, yes = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    with refusal(what="…labels and mask of one shape…", got="labels of shape (2, 4), mask of shape (2, 3)…"):
        loss.padded(square, torch.zeros(2, 4), yes)
    with refusal(what="…a mask of True and False", got="…torch.float32", hint="pass mask.bool…"):
        loss.padded(square, square, square)
    with refusal(what="every query needs at least one document", got="0 documents", where="query number 1"):
        loss.padded(square, square, torch.tensor([[True, True, True], [False, False, False]]))


def test_a_user_objective_must_keep_the_shape():
    def careless(scores, labels, offsets, stream=None):
        return Derivatives(scores, scores, scores, scores)

    with refusal(what="the objective careless did not return derivatives", got="a value of shape (3,)…"):
        rw.torch_loss(careless)(torch.zeros(3), [0, 1, 1], [0, 2, 3])

    def read_only(scores, labels, offsets, stream=None):
        value = np.broadcast_to(scores.sum(), 2)
        return Derivatives(value, np.broadcast_to(1, scores.size), scores, scores)

    scores: Any = torch.ones(3, requires_grad=True)
    loss = rw.torch_loss(read_only, "sum")(scores, [0, 1, 1], [0, 2, 3])
    loss.backward()
    assert loss == 6.0
    np.testing.assert_array_equal(scores.grad, [1.0, 1.0, 1.0])


def test_torch_is_imported_on_use_and_named_if_missing():
    code = (
        "import sys, rankwise as rw; rw.torch_loss; assert 'torch' not in sys.modules; sys.modules['torch'] = None\n"
        "try: rw.torch_loss('ranknet')\n"
        "except ImportError as missing: print(missing)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "torch is not installed. Install it with: pip install 'rankwise[torch]'"


def test_hints_for_padded_batches_and_masks_of_numbers():
    loss = rw.torch_loss("softmax_ce")
    scores, labels, mask = torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
    for offsets in (mask, mask.int(), [0, 3, 6]):
        with refusal(hint="call loss.padded(scores, labels, mask) for a padded batch"):
            loss(scores, labels, offsets)
    refuses(lambda: loss.padded(scores, labels, mask.int()), hint="pass mask.bool()")
    assert loss.padded(scores, labels, mask.int().bool()) == loss.padded(scores, labels, mask)
