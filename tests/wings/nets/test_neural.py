"""Nets keep to what rankers of trees keep to; and batches, presets, transforms and what is special about nets."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import rankwise as rw
from rankwise.base import arrays
from rankwise.cli.app import app
from rankwise.models import column_statistics
from rankwise.rankers.torch.batches import Batching
from rankwise.wings.nets.presets import DEFAULT, PRESETS, NetSettings
from rankwise.wings.nets.transforms import Transform
from tests import tiers
from tests.processes import HANG
from tests.rankers.test_contract import same
from tests.rankers.training.learners import learner_of
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {
    "hidden": (16,), "dropout": 0.0, "averaging": 0.0, "learning_rate": 0.01, "epochs": 8, "batch_queries": 10,
    "threads": 1, "device": "cpu",
}  # fmt: skip


def ranker(objective: Any = "softmax_ce", **changes: Any) -> rw.NeuralRanker:
    return rw.NeuralRanker(objective, **SMALL | changes)


def first_layer(model: Any) -> torch.Tensor:
    weights: torch.Tensor = model.model_.body[0].weight.detach()
    return weights


# Training.


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_step_is_that_of_the_formula(reduction, data):
    """One step of plain gradient descent of a linear model, against autograd on the formula."""
    weights = np.where(np.arange(data.n_queries) % 3 == 0, 2.5, 1.0)
    settings: Any = {"hidden": (), "optimizer": "sgd", "learning_rate": 0.05, "batch_queries": 999, "transform": "raw"}
    start, after = (
        first_layer(
            ranker("softmax_ce", epochs=1, reduction=reduction, **settings | {"learning_rate": rate}).fit(
                data.with_(weights=weights)
            )
        )
        for rate in (1e-30, 0.05)
    )
    slope: Any = start.clone().requires_grad_()
    scores = torch.tensor(data.features) @ slope[0]
    total = torch.zeros(())
    for weight, (low, high) in zip(weights, zip(data.offsets[:-1], data.offsets[1:], strict=True), strict=True):
        labels = torch.tensor(data.labels[low:high], dtype=torch.float32)
        total = total - weight * (labels / labels.sum().clamp(min=1e-9) @ torch.log_softmax(scores[low:high], 0))
    (total / (weights.sum() if reduction == "mean" else 1.0)).backward()
    assert torch.allclose(after, slope - 0.05 * slope.grad, atol=1e-6)
    assert not torch.allclose(after, slope, atol=1e-4)


def test_seeds_repeat_and_the_users_own_random_state_is_left_alone(data, valid):
    settings: Any = {"dropout": 0.5, "batch_norm": True, "hidden": (16, 8)}
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    one = ranker("stochastic(xendcg)", **settings).fit(data, valid)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(2)
    again = ranker("stochastic(xendcg)", **settings).fit(data, valid)
    assert same(one, again, valid)
    assert one.history_ == again.history_
    other = ranker("stochastic(xendcg)", seed=1, **settings).fit(data, valid)
    assert not same(one, other, valid)


def test_batches_do_not_depend_on_the_order_of_queries_in_the_data(data):
    order = np.random.default_rng(0).permutation(data.n_queries)
    one, other = ranker("stochastic(approx_ndcg)").fit(data), ranker("stochastic(approx_ndcg)").fit(data.take(order))
    assert np.allclose(one.predict(data), other.predict(data), atol=1e-5)


@pytest.mark.parametrize("members", [1, 3])
def test_losses_with_and_without_a_last_bias_continue_each_other(members, data):
    one, other = (ranker(loss, epochs=1, members=members) for loss in ("softmax_ce", "calibrated"))
    biased = ranker("calibrated", epochs=1, members=members, learning_rate=1e-12).fit(data, init_model=one.fit(data))
    np.testing.assert_allclose(biased.predict(data), one.predict(data), atol=1e-5)
    plain = ranker("softmax_ce", epochs=1, members=members, learning_rate=1e-12).fit(data, init_model=other.fit(data))
    np.testing.assert_allclose(np.ptp(plain.predict(data) - other.predict(data)), 0.0, atol=1e-5)


def test_an_older_model_is_continued_on_new_data(data, valid):
    older = ranker(epochs=5).fit(valid)
    newer = ranker(epochs=3, batch_queries=999).fit(data, init_model=older)
    assert newer.epochs_ == 8
    start = rw.objective("softmax_ce")(older.predict(data), data.labels, data.offsets).value.mean()
    assert newer.history_["loss"][0] == pytest.approx(start, rel=1e-5)
    assert torch.equal(newer.model_.transform.mean, older.model_.transform.mean)
    with refusal(what="init_model must be a net of the same layers", got="(16, 12) for body.0.weight, and (8, 12)…"):
        ranker(hidden=(8,)).fit(data, init_model=older)
    with refusal(what="init_model must be a trained NeuralRanker, or its folder", got="LightGBMRanker"):
        ranker().fit(data, init_model=rw.LightGBMRanker(rounds=1, threads=1).fit(data))


class Breaking:
    """An objective during which the user presses Ctrl-C, in the third batch of an epoch."""

    exact_hessian, estimator = True, False

    def __init__(self, at):
        self.at, self.batches = at, 0

    def __call__(self, scores, labels, offsets, stream=None):
        self.batches += stream.round == self.at
        if self.batches == 3:
            raise KeyboardInterrupt
        return rw.objective("softmax_ce")(scores, labels, offsets, stream)


def test_an_interruption_keeps_the_best_so_far(data, valid):
    with pytest.warns(RuntimeWarning, match="interrupted after epoch 3: the best model so far, of . epochs, is kept"):
        model = ranker(Breaking(3)).fit(data, valid)
    whole = ranker(epochs=3).fit(data, valid)
    assert model.stopped_ == "interrupted"
    assert model.history_ == whole.history_
    assert same(model, whole, valid)
    with pytest.warns(RuntimeWarning, match="interrupted after epoch 3"):
        model = ranker(Breaking(3)).fit(data)
    assert same(model, ranker(epochs=3).fit(data), valid)  # not the weights of the middle of the fourth
    with pytest.raises(KeyboardInterrupt):
        ranker(Breaking(0)).fit(data)


def test_presets_and_missing_values_are_kept_in_a_saved_model(data, tmp_path):
    holes = data.with_(features=np.where(data.features > 1.5, np.nan, data.features))
    model = ranker("stochastic(lambdarank, samples=2)", preset="2020-tuned", hidden="16-8", epochs=3).fit(holes)
    folder = model.save(tmp_path / "model")
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "model.safetensors",
        "rankwise.json",
        "training_queries.bin",
    ]
    assert np.isfinite(model.predict(holes)).all()
    loaded: Any = rw.load(folder)
    np.save(tmp_path / "features.npy", holes.features)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    assert np.array_equal(loaded.predict(mapped), model.predict(holes))
    assert repr(loaded) == repr(model)
    assert loaded.get_params() == model.get_params()
    assert loaded.settings == model.settings
    assert same(loaded.fit(holes), model, holes)  # the parameters are those that train the same model again


def test_clicks_are_debiased_by_propensities():
    clicks = rw.clicks.simulate_clicks(rw.synthetic(n_queries=20, seed=4), model="position", impressions=2, seed=1)
    fair = ranker(debias=True, epochs=2).fit(clicks)
    by_hand = ranker(epochs=2).fit(clicks.with_(labels=clicks.labels / np.asarray(clicks.propensities)))
    assert np.allclose(fair.predict(clicks), by_hand.predict(clicks), atol=1e-6)
    assert not same(fair, ranker(epochs=2).fit(clicks), clicks)


# Contributions.


def test_contributions_of_a_linear_model_are_exact(data):
    model = ranker(hidden=(), transform="standardize").fit(data)
    slope = first_layer(model).numpy()[0]
    expected = slope * (data.features - data.features.mean(0)) / data.features.std(0)
    parts = model.explain(data)
    assert np.allclose(parts[:, :-1], expected, atol=1e-5)
    assert np.allclose(parts[:, -1], model.predict(data).mean(), atol=1e-5)


def test_contributions_of_a_net_add_up_and_missing_values_add_nothing(data, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", 1000)  # many blocks
    holes = data.with_(features=np.where(data.features > 1.5, np.nan, data.features))
    model = ranker(hidden=(16, 8), batch_norm=True).fit(holes)
    parts = model.explain(holes)
    assert parts.shape == (data.n_docs, 13)
    assert np.allclose(parts.sum(axis=1), model.predict(holes), atol=1e-9)
    assert not parts[:, :-1][np.isnan(holes.features)].any()


@pytest.mark.parametrize(("activation", "share"), [("sigmoid", 1e-5), ("relu", 0.02)])
def test_the_steps_to_contributions_leave_little_over(activation, share, data):
    """What is added to make rows complete does not decide: next to nothing, on average little if there are kinks."""
    model = ranker(hidden=(16, 8), batch_norm=True, activation=activation).fit(data)
    away, gradients = model.model_._gradients(data.features, model.model_.transform.average())
    steps, parts = away * gradients, model.explain(data)[:, :-1]
    assert np.abs(steps.sum(1) - parts.sum(1)).mean() < share * np.abs(parts).sum(1).mean()


# Batches.


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 20), st.integers(0, 3), st.booleans())
def test_batches_hold_whole_queries_and_keep_to_the_budget(sizes, limit, epoch, by_documents):
    lists = rw.RankingDataset.from_sizes(np.zeros((sum(sizes), 1)), np.zeros(sum(sizes)), sizes)
    batching = Batching(limit, limit if by_documents else None)
    cut = list(batching.cut(lists, lists.stream(0, epoch)))
    assert sorted(np.concatenate(cut).tolist()) == list(range(len(sizes)))
    for number, batch in enumerate(cut):
        documents = lists.sizes[batch].sum()
        if by_documents:
            assert documents <= limit or batch.size == 1
            if number + 1 < len(cut):  # nothing is wasted
                assert documents + lists.sizes[cut[number + 1][0]] > limit
        else:
            assert batch.size == limit or (number + 1 == len(cut) and batch.size < limit)


def test_every_epoch_has_an_order_of_its_own_that_repeats(data):
    orders = [np.concatenate(list(Batching(7).cut(data, data.stream(0, epoch)))) for epoch in (0, 1, 0)]
    assert np.array_equal(orders[0], orders[2])
    assert not np.array_equal(orders[0], orders[1])


def test_a_batch_of_one_document_is_no_trouble_for_batch_norm():
    lists = rw.RankingDataset.from_sizes(np.arange(14.0)[:, None], np.arange(14) % 3, [1, 6, 6, 1])
    model = ranker(batch_norm=True, batch_queries=1).fit(lists)
    assert np.isfinite(model.predict(lists)).all()


# Presets.


def test_presets_are_what_the_papers_print(data):
    by_name: Any = {
        "2020": ((1024, 512, 256, 128, 64, 32, 16), 0.2, "Adagrad", 0.005, 128, "sum", 0.0),
        "2020-yahoo": ((1024, 512, 256, 128, 64, 32, 16), 0.01, "Adagrad", 0.005, 128, "sum", 0.0),
        "2020-tuned": ((1024, 512, 256), 0.6, "Adam", 0.005, 128, "mean", 0.5),
    }
    for name, (hidden, momentum, optimizer, rate, queries, reduction, dropout) in by_name.items():
        learner: Any = learner_of(rw.NeuralRanker(preset=name, threads=1, device="cpu"), data)
        layers = list(learner.module.body)
        assert [layer.out_features for layer in layers if isinstance(layer, torch.nn.Linear)] == [*hidden, 1]
        norms = [layer for layer in layers if isinstance(layer, torch.nn.BatchNorm1d)]
        assert layers[0] is norms[0]
        assert [norm.num_features for norm in norms] == [12, *hidden]
        assert {norm.momentum for norm in norms} == {momentum}
        assert {layer.p for layer in layers if isinstance(layer, torch.nn.Dropout)} == ({dropout} if dropout else set())
        made = learner.optimizer(learner.module.parameters())
        assert type(made).__name__ == optimizer
        assert made.param_groups[0]["lr"] == rate
        assert (learner.batching.queries, learner.reduction) == (queries, reduction)
    thesis = PRESETS["thesis"]
    assert (thesis.hidden, thesis.optimizer, thesis.batch_queries) == ((46,), "adam", 32)
    assert (PRESETS["2024"].activation, PRESETS["2024"].reduction) == ("sigmoid", "sum")
    assert PRESETS["linear"].hidden == ()


def test_what_is_given_wins_over_the_preset():
    one = rw.NeuralRanker("xendcg", preset="2020", dropout=0.25, hidden=(8, 4))
    assert one.settings.hidden == (8, 4)
    assert one.settings.dropout == 0.25
    assert one.settings.optimizer == "adagrad"
    assert one.get_params()["optimizer"] is None
    assert repr(one) == "neural(xendcg, preset='2020', hidden=(8, 4), dropout=0.25)"
    other = clone(one).set_params(preset="linear", hidden=None)
    assert other.settings.hidden == ()
    assert one.settings.hidden == (8, 4)
    assert rw.NeuralRanker(hidden="64-32", batch_norm=False).settings == replace(DEFAULT, hidden=(64, 32))


def test_a_net_without_a_preset_has_the_defaults_that_validation_chose():
    one = rw.NeuralRanker().settings
    assert one == DEFAULT
    assert (one.hidden, one.dropout, one.averaging, one.transform) == ((128, 64), 0.3, 0.99, "quantile")
    assert not rw.NeuralRanker(epochs=1, threads=1, device="cpu").fit(rw.synthetic(n_queries=9, seed=1)).needs_lists


def test_what_a_preset_does_not_say_and_older_files_are_not_changed_by_the_defaults():
    before = NetSettings()
    assert (before.hidden, before.dropout, before.averaging) == ((256, 128, 64), 0.1, 0.0)
    assert (before.transform, before.learning_rate, before.batch_queries) == ("log1p+standardize", 1e-3, 32)
    assert PRESETS["2024"].transform == PRESETS["linear"].transform == "log1p+standardize"
    assert {one.averaging for one in PRESETS.values()} == {0.0}


# Transforms.


@pytest.mark.parametrize("numbers", [1, 10**6])
def test_standardising_is_that_of_scikit_learn(numbers, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK", numbers)
    rng = np.random.default_rng(0)
    features = (rng.normal(1e4, 3.0, (200, 3)) * [1, 1, 0]).astype(np.float32)
    features[rng.random((200, 3)) < 0.1] = np.nan
    expected = np.nan_to_num(StandardScaler().fit_transform(features.astype(np.float64)))
    transform = Transform(3, "standardize")
    assert transform.fit(features)
    assert np.allclose(transform(torch.tensor(features)), expected, atol=1e-3)
    logs = np.sign(features) * np.log1p(np.abs(features.astype(np.float64)))
    transform = Transform(3, "log1p")
    transform.fit(features)
    assert np.allclose(
        transform(torch.tensor(features)), np.where(np.isnan(logs), np.nanmean(logs, axis=0), logs), atol=1e-5
    )
    assert not Transform(1, "raw").fit(np.array([[2.0], [2.0], [np.nan]], np.float32))
    moments = column_statistics.ColumnMoments(1)
    moments.add(np.full((2, 1), np.nan))
    assert moments.mean == 0.0
    assert not moments.varied


def test_mixed_precision_learns_nearly_the_same(data):
    one, mixed = ranker("lambdarank").fit(data), ranker("lambdarank", precision="bf16").fit(data)
    assert first_layer(mixed).dtype == torch.float32
    assert not same(one, mixed, data)
    by_chance = ranker("lambdarank", seed=1).fit(data)  # nearer than another draw of the first weights
    near, far = (1 - np.corrcoef(one.predict(data), other.predict(data))[0, 1] for other in (mixed, by_chance))
    assert 4 * near < far


# Errors.


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"preset": "2021"}, {"what": "unknown preset", "got": "'2021'"}),
        ({"hidden": (8, 0)}, {"what": "a layer of hidden must be a whole number of at least 1", "got": "0"}),
        ({"hidden": "8-x"}, {"what": "a layer of hidden must be a whole number of at least 1", "got": "'x'"}),
        (
            {"hidden": 1.5},
            {"what": "hidden must be the sizes of layers", "got": "1.5", "hint": "write (64, 32) or '64-32'"},
        ),
        ({"dropout": 1.0}, {"what": "dropout must be below 1", "got": "1.0"}),
        (
            {"transform": "none"},
            {"what": "unknown transform", "got": "'none'", "hint": "choose one of raw, standardize, log1p…"},
        ),
        ({"batch_documents": 0}, {"what": "batch_documents must be a whole number of at least 1"}),
        ({"precision": "half"}, {"what": "unknown precision", "got": "'half'"}),
        (
            {"device": "cuda:77"},
            {"what": "torch cannot use the device", "got": "'cuda:77' (…", "hint": "set device='cpu'…"},
        ),
        ({"patience": 0}, {"what": "patience must be a whole number of at least 1"}),
        ({"epochs": 0}, {"what": "epochs must be a whole number of at least 1"}),
    ],
)
def test_wrong_parameters_say_what_is_wrong(changes, fields, data):
    refuses(lambda: ranker(**changes).fit(data), **fields)


def test_unknown_parameters_are_errors_with_a_suggestion():
    with refusal(what="NeuralRanker has no such parameter", got="'drop_out'", hint="did you mean 'dropout'"):
        rw.NeuralRanker(drop_out=0.1)
    refuses(lambda: rw.NeuralRanker(rounds=10), what="'rounds' has another name here", hint="set epochs=")


def test_data_that_teach_nothing_say_why(data):
    with refusal(what="the model learned nothing from 40 queries", got="no query with documents of different labels"):
        ranker("lambdarank").fit(data.with_(labels=np.ones(data.n_docs)))
    with refusal(what="the model learned nothing from 40 queries", got="features that are the same for every document"):
        ranker().fit(data.with_(features=np.ones((data.n_docs, 12))))
    with refusal(what="NeuralRanker takes numbers, and no categories", got="1 categorical columns, the first number 2"):
        ranker().fit(data.with_(categorical=[2]))
    broken = np.array(data.features)
    broken[5, 2] = np.inf
    with refusal(what="…finite, or NaN where they are missing", got="inf", where="row 5, column 2"):
        ranker().fit(data.with_(features=broken))
    with refusal(what="…finite, or NaN…", got="a score of…", where="row 5", hint="look at the features…"):
        ranker(epochs=1, transform="standardize").fit(data).predict(broken)
    with refusal(what="scores must be finite", hint="…learning rate…"):
        ranker(learning_rate=1e30, optimizer="sgd").fit(data)


# Features on disk.

_ON_DISK = """
import resource, sys
import numpy as np, torch, rankwise as rw
from rankwise.data.dataset import RankingDataset

features = np.load(sys.argv[1], mmap_mode="r")
rng = np.random.default_rng(0)
data = RankingDataset.from_sizes(features, rng.integers(0, 3, len(features)), [64] * (len(features) // 64))
settings = dict(hidden=(4,), epochs=1, threads=1, device="cpu", batch_queries=16)
small = data.take(slice(0, 64))
rw.NeuralRanker("softmax_ce", **settings).fit(small, small).explain(small)  # everything is loaded and compiled
torch.set_num_threads(1)

# What the process may ask for beside what it has: less than the features. Pages of a mapped file do not count.
now = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmData"))
limit = now + features.nbytes * 3 // 4
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    np.array(features)
    print("the limit does not limit")
except MemoryError:
    pass
model = rw.NeuralRanker("softmax_ce", checkpoint=sys.argv[2], checkpoint_every=1, **settings).fit(data, data)
print(len(model.predict(features)), model.stopped_)
"""


@tiers.only_all
@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are those of Linux")
def test_features_on_disk_are_never_in_memory_as_a_whole(tmp_path):
    """Slow: 128 MB of features, and 96 MB to transform, train, validate, checkpoint and predict in."""
    matrix = np.lib.format.open_memmap(tmp_path / "features.npy", "w+", np.float32, (2**16, 512))
    matrix[:, :4] = np.random.default_rng(1).normal(size=(2**16, 4))  # the rest is a hole in the file
    matrix.flush()
    del matrix
    command = [sys.executable, "-c", _ON_DISK, str(tmp_path / "features.npy"), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    assert done.stdout.split() == ["65536", "epochs"], done.stderr


# On the command line, and tuned.


def test_the_command_line_trains_and_tunes_nets(data, valid, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rw.write_data(data, "train.parquet")
    rw.write_data(valid, "valid.parquet")
    both = ["train.parquet", "--valid", "valid.parquet", "--ranker", "neural", "--threads", "1"]
    words = [*both, "--epochs", "3", "--set", "preset=2020-tuned", "--set", "hidden=8-4"]
    result = CliRunner().invoke(app, ["train", *words, "-o", "model"])
    assert result.exit_code == 0, result.output
    assert "3 trained (all epochs done)" in result.stdout
    expected = rw.NeuralRanker(preset="2020-tuned", hidden=(8, 4), epochs=3, threads=1).fit(data, valid)
    assert same(rw.load("model"), expected, valid)
    words = [*both, "--objective", "softmax_ce", "--epochs", "2", "--trials", "2", "-o", "best.toml"]
    result = CliRunner().invoke(app, ["tune", *words])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["train", *both[:3], "--params", "best.toml", "--threads", "1", "-o", "tuned"])
    assert result.exit_code == 0, result.output
    best: Any = rw.load("tuned")
    assert best.settings.optimizer == "adamw"
    assert f"value = {max(best.history_['ndcg@10'])!r}" in Path("best.toml").read_text()
    refused = CliRunner().invoke(app, ["train", *both, "--rounds", "3", "-o", "other"])
    assert "'rounds' has another name here. Hint: use --epochs" in refused.stderr
