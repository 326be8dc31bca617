"""Rerankers learn, repeat, resume, stop, and score as the models do that they save."""

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.rerank.learner import RerankLearner
from tests.refusals import refusal, refuses
from tests.wings.rerank import graded, tiny

SETTINGS = {"epochs": 2, "learning_rate": 3e-3, "batch_queries": 4, "parts": 2, "threads": 1, "device": "cpu"}


def reranker(folder, objective="softmax_ce", **changes):
    return rw.rerank.Reranker(folder, objective, **{**SETTINGS, **changes})


@pytest.fixture(scope="module")
def parts():
    data = graded.lists(40)
    return data.take(slice(0, 24)), data.take(slice(24, 40))


@pytest.fixture(scope="module")
def calm_folder(tmp_path_factory):
    """The tiny model without dropout, which no mini-batch nor process draws its own of."""
    return tiny.save(tmp_path_factory.mktemp("calm"), dropout=0.0)


@pytest.fixture(scope="module")
def trained(tiny_folder, parts):
    return reranker(tiny_folder, epochs=5, metrics=["ndcg@10", "rr"]).fit(*parts)


def weights(model):
    return {name: one.detach().numpy().copy() for name, one in model.encoder.state_dict().items()}


def differences(model, lists):
    """Scores without what all documents of a query have in common, which no loss here looks at."""
    scores = model.predict(lists)
    return scores - np.repeat(np.add.reduceat(scores, lists.offsets[:-1]) / lists.sizes, lists.sizes)


def assert_same(first, second):
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for name, one in ours.items():
        np.testing.assert_array_equal(one, theirs[name], err_msg=name)


def test_it_learns_and_keeps_the_best_part(trained, tiny_folder, parts):
    before = reranker(tiny_folder).evaluate(parts[1]).mean["ndcg@10"]
    assert trained.history_["loss"][-1] < trained.history_["loss"][0]
    assert trained.evaluation_.mean["ndcg@10"] == max(trained.history_["ndcg@10"]) > before
    assert trained.best_round_ == 1 + np.argmax(trained.history_["ndcg@10"])
    assert trained.stopped_ == "parts"
    assert trained.epochs_ == trained.best_round_ / 2
    np.testing.assert_array_equal(
        trained.evaluate(parts[1])["ndcg@10"], trained.evaluation_["ndcg@10"]
    )  # the model that is left is the one that was measured


def test_the_same_seed_gives_the_same_model_and_another_another(trained, tiny_folder, parts):
    again = reranker(tiny_folder, epochs=5, metrics=["ndcg@10", "rr"]).fit(*parts)
    assert_same(trained, again)
    assert trained.history_ == again.history_
    other = reranker(tiny_folder, seed=1, epochs=1).fit(parts[0])
    same = reranker(tiny_folder, epochs=1).fit(parts[0])
    assert (other.predict(parts[1]) != same.predict(parts[1])).any()


def test_fit_begins_from_the_model_again(tiny_folder, parts):
    model = reranker(tiny_folder, epochs=1).fit(parts[0])
    first = weights(model)
    model.fit(parts[0])
    for name, one in weights(model).items():
        np.testing.assert_array_equal(one, first[name])


def test_a_trained_model_holds_no_gradients(trained):
    assert all(one.grad is None for one in trained.encoder.parameters())


def test_torchs_own_random_state_is_left_alone(tiny_folder, parts, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("GPUs that are not trained on"))
    before = torch.get_rng_state()
    reranker(tiny_folder, epochs=1, parts=1).fit(parts[0].take(slice(0, 4)))
    assert (torch.get_rng_state() == before).all()


@pytest.mark.parametrize("objective", ["lambdarank", "stochastic(approx_ndcg, samples=2)", "0.5*xendcg + 0.5*listnet"])
def test_objectives_of_every_kind_train(objective, tiny_folder, parts):
    model = reranker(tiny_folder, objective, epochs=1, parts=1).fit(*parts)
    assert np.isfinite(model.history_["loss"]).all()


def test_a_teacher_is_learned(tiny_folder, parts):
    train = parts[0]
    taught = train.with_(teacher_scores=2.0 * train.labels, labels=np.zeros(train.n_docs))
    model = reranker(tiny_folder, "distil", epochs=4).fit(taught)
    assert rw.evaluate(model.predict(parts[1]), parts[1].data).mean["ndcg@10"] > 0.9
    with refusal(what="distil needs the teacher's score of every document"):
        reranker(tiny_folder, "distil").fit(train)


def test_mini_batches_change_nothing(calm_folder, parts):
    large, small = (reranker(calm_folder, epochs=1, token_budget=budget).fit(*parts) for budget in (16_384, 40))
    np.testing.assert_allclose(small.history_["loss"], large.history_["loss"], rtol=1e-4)
    np.testing.assert_allclose(differences(small, parts[1]), differences(large, parts[1]), atol=1e-3)


def test_a_weight_of_two_is_the_list_twice(calm_folder, parts):
    few = parts[0].take(slice(0, 4))
    again = [0, 0, 1, 2, 3]
    documents, labels = few.nested(few.documents), few.nested(few.labels)
    twice = rw.rerank.Lists.from_lists(
        [few.queries[number] for number in again],
        [documents[number] for number in again],
        [labels[number] for number in again],
    )
    one_step = {"epochs": 1, "parts": 1, "batch_queries": 5, "warmup": 0.0}
    by_weight = reranker(calm_folder, **one_step).fit(few.with_(weights=[2.0, 1.0, 1.0, 1.0]))
    by_copy = reranker(calm_folder, **one_step).fit(twice)
    np.testing.assert_allclose(by_weight.history_["loss"], by_copy.history_["loss"], rtol=1e-6)
    np.testing.assert_allclose(differences(by_weight, parts[1]), differences(by_copy, parts[1]), atol=1e-3)


def test_propensities_are_weights_of_documents(calm_folder, parts):
    train = parts[0]
    chances = np.where(np.arange(train.n_docs) % 2, 0.5, 1.0)
    one = {"epochs": 1, "parts": 1}
    debiased = reranker(calm_folder, debias=True, **one).fit(train.with_(propensities=chances))
    weighed = reranker(calm_folder, **one).fit(train.with_(document_weights=1 / chances))
    assert_same(debiased, weighed)
    with refusal(what="debias needs propensities and an objective that weighs documents"):
        reranker(calm_folder, debias=True).fit(train)


def test_training_stops_when_the_metric_no_longer_improves(tiny_folder, parts):
    model = reranker(tiny_folder, epochs=9, patience=2, learning_rate=1e-9).fit(*parts)
    assert model.stopped_ == "patience"
    assert len(model.history_["loss"]) == model.best_round_ + 2


def test_lists_without_a_gradient_are_an_error(tiny_folder, parts):
    nothing = parts[0].with_(labels=np.zeros(parts[0].n_docs))
    with refusal(rw.errors.NothingLearnedError, got="no query with documents of different labels"):
        reranker(tiny_folder).fit(nothing)


def test_parts_without_a_gradient_do_not_end_the_training(tiny_folder, parts):
    told = np.repeat(np.arange(24) == 0, parts[0].sizes)  # one list of 24, in one of six parts
    model = reranker(tiny_folder, epochs=1, parts=6).fit(parts[0].with_(labels=parts[0].labels * told))
    assert model.stopped_ == "parts"
    assert len(model.history_["loss"]) == 6
    weightless = parts[0].with_(weights=np.arange(24) == 0)
    assert reranker(tiny_folder, epochs=1, parts=6).fit(weightless).stopped_ == "parts"


def test_mixed_precision_learns_nearly_the_same(calm_folder, parts):
    exact, mixed = (reranker(calm_folder, epochs=1, precision=how).fit(*parts) for how in ("float32", "bf16"))
    np.testing.assert_allclose(mixed.history_["loss"], exact.history_["loss"], rtol=0.05)
    assert (mixed.predict(parts[1]) != exact.predict(parts[1])).any()


def test_a_language_model_scores_by_the_logit_of_yes(tmp_path, parts):
    from transformers import LlamaConfig, LlamaForCausalLM

    words = tiny.tokenizer()
    words.padding_side = "left"
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes)).save_pretrained(tmp_path / "base")
    words.save_pretrained(tmp_path / "base")
    model = reranker(tmp_path / "base", epochs=1).fit(*parts)
    model.save(tmp_path / "model")
    loaded = rw.rerank.Reranker.load(tmp_path / "model", device="cpu")
    np.testing.assert_allclose(loaded.predict(parts[1]), model.predict(parts[1]), atol=1e-6)


def test_a_checkpoint_resumes_to_the_same_model(tiny_folder, parts, tmp_path, monkeypatch):
    settings = {"checkpoint": tmp_path / "state", "epochs": 3}
    whole = reranker(tiny_folder, epochs=3).fit(*parts)

    def stop(done, history):
        if done == 3:
            raise RuntimeError("the power is gone")

    with pytest.raises(RuntimeError, match="power"):
        reranker(tiny_folder, **settings).fit(*parts, callback=stop)
    refuses(lambda: reranker(tiny_folder, **settings).fit(*parts), FileExistsError, hint="…resume=True…")
    with refusal(what="the checkpoint belongs to another training (parameters: learning_rate differs)"):
        reranker(tiny_folder, learning_rate=1.0, **settings).fit(*parts, resume=True)
    with refusal(what="the checkpoint belongs to another training (parameters: epochs differs)"):
        reranker(tiny_folder, **{**settings, "epochs": 4}).fit(*parts, resume=True)
    with refusal(what="the checkpoint belongs to another training (data: train differs)"):
        reranker(tiny_folder, **settings).fit(parts[0].take(slice(0, 20)), parts[1], resume=True)
    with refusal(what="a checkpoint holds a training that has not ended"):
        rw.rerank.Reranker.load(tmp_path / "state")
    rounds, trains = [], RerankLearner.round

    def counted(self, stream, weights=()):
        rounds.append(stream.round)
        return trains(self, stream, weights)

    monkeypatch.setattr(RerankLearner, "round", counted)
    resumed = reranker(tiny_folder, **settings).fit(*parts, resume=True)
    assert rounds == [3, 4, 5]
    assert resumed.history_ == whole.history_
    assert resumed.evaluation_.mean == whole.evaluation_.mean
    assert_same(resumed, whole)


def test_a_checkpoint_belongs_to_the_code_of_its_functions(tiny_folder, parts, tmp_path):
    def own_loss(factor):
        def own(scores, labels, offsets):
            gap = factor * (scores - labels)
            return np.add.reduceat(gap**2, offsets[:-1]), 2.0 * factor * gap, np.full_like(gap, 2.0 * factor**2)

        return own

    def stop(done, history):
        raise RuntimeError("the power is gone")

    settings: dict = {"checkpoint": tmp_path / "state", "epochs": 1}
    with pytest.raises(RuntimeError, match="power"):
        reranker(tiny_folder, objective=own_loss(1.0), **settings).fit(*parts, callback=stop)
    with refusal(what="the checkpoint belongs to another training (code: own differs)"):
        reranker(tiny_folder, objective=own_loss(2.0), **settings).fit(*parts, resume=True)
    with pytest.raises(RuntimeError, match="power"):
        reranker(tiny_folder, objective=own_loss(1.0), **settings).fit(*parts, callback=stop, resume=True)


def test_resuming_needs_a_checkpoint(tiny_folder, parts):
    refuses(lambda: reranker(tiny_folder).fit(parts[0], resume=True), what="resume needs a checkpoint")


def test_the_progress_bar_counts_steps_and_shows_loss_and_metric(tiny_folder, parts, capsys):
    steps = -(-parts[0].n_queries // 6)
    reranker(tiny_folder, epochs=1, parts=2, batch_queries=6, progress=True).fit(*parts)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"{steps}/{steps}" in shown.err
    assert "loss " in shown.err
    assert "ndcg@10 0." in shown.err


def test_an_interruption_keeps_the_best_part(tiny_folder, parts):
    def press(done, history):
        if done == 2:
            raise KeyboardInterrupt

    model = reranker(tiny_folder)
    with pytest.warns(RuntimeWarning, match="interrupted after part 2: the best model so far, of . parts, is kept"):
        model.fit(*parts, callback=press)
    assert model.stopped_ == "interrupted"
    assert len(model.history_["loss"]) == 2
    assert model.evaluate(parts[1]).mean["ndcg@10"] == max(model.history_["ndcg@10"])


def test_an_interruption_of_the_first_part_is_raised(tiny_folder, parts, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(RerankLearner, "_step", press)
    with pytest.raises(KeyboardInterrupt):
        reranker(tiny_folder).fit(*parts)


def test_scores_are_those_of_the_cross_encoder(trained, parts):
    pairs = list(parts[1].pairs())
    scores = trained.predict(parts[1])
    np.testing.assert_allclose(trained.encoder.predict(pairs, show_progress_bar=False), scores, atol=1e-5)
    np.testing.assert_allclose(trained.predict(pairs[:5]), scores[:5], atol=1e-5)
    assert trained.predict([]).shape == (0,)


def test_pairs_are_scored_in_their_order_however_they_are_cut(trained, parts, monkeypatch):
    whole = trained.predict(parts[1])
    monkeypatch.setattr("rankwise.wings.rerank.scoring._CHUNK", 7)
    np.testing.assert_allclose(trained.predict(parts[1]), whole, atol=1e-5)


def test_rank_sorts_documents_by_score(trained):
    documents = ["the house", "a great great film", "a tree"]
    table = trained.rank("people", documents)
    assert table.columns == ["rank", "document", "score", "text"]
    assert table["text"].to_list() == [documents[number] for number in table["document"]]
    assert table["document"][0] == 1
    assert table["score"].is_sorted(descending=True)
    assert trained.rank("people", documents, top_k=1).height == 1
    refuses(lambda: trained.rank("people", documents, top_k=0), what="top_k must be a whole number of at least 1")
    refuses(lambda: trained.rank("people", "a great film"), what="documents must be a list of texts")


def test_evaluate_and_compare_score_with_a_reranker(trained, tiny_folder, parts):
    before, after = reranker(tiny_folder).predict(parts[1]), trained.predict(parts[1])
    evaluation = rw.evaluate(after, parts[1].data, ["ndcg@10", "rr"])
    assert evaluation.mean == trained.evaluate(parts[1], ["ndcg@10", "rr"]).mean
    found = rw.compare({"before": before, "after": after}, parts[1].data, "ndcg@10", baseline="before")
    assert "after" in repr(found)
    assert "ndcg@10" in repr(found)


def test_data_without_texts_are_rejected(trained, tiny_folder, parts):
    with refusal(what="texts must be pairs", got="'a text'", where="number 1"):
        trained.predict([("a", "b"), "a text"])
    for other in ("a text", parts[0].data):
        with pytest.raises(ValueError, match=f"a reranker scores texts: got {type(other).__name__}"):
            trained.predict(other)
    refuses(lambda: rw.evaluate(trained, parts[0].data), hint="pass rw.rerank.Lists, which rw.evaluate…")
    refuses(lambda: reranker(tiny_folder).fit(parts[0].data), what="train must be Lists", got="RankingDataset")
    refuses(lambda: reranker(tiny_folder).fit(parts[0], parts[1].data), what="valid must be Lists")


@pytest.mark.parametrize(
    ("setting", "fields"),
    [
        ({"epochs": 0}, {"what": "epochs must be a whole number of at least 1"}),
        ({"precision": "fp8"}, {"what": "unknown precision"}),
        ({"parts": 0}, {"what": "parts must be a whole number of at least 1"}),
        ({"warmup": 2.0}, {"what": "warmup must be a number in [0, 1]"}),
        ({"token_budget": 0}, {"what": "token_budget must be a whole number of at least 1"}),
        ({"device": "no such"}, {"what": "torch cannot use the device"}),
        ({"metrics": "ndgc"}, {"hint": "did you mean 'ndcg'"}),
        ({"objective": "lambdarnk"}, {"hint": "did you mean 'lambdarank'"}),
    ],
)
def test_wrong_settings_are_rejected_before_training(setting, fields, tiny_folder, parts):
    refuses(lambda: reranker(tiny_folder, **setting).fit(*parts), **fields)


def test_the_repr_shows_changed_settings(tiny_folder):
    assert repr(rw.rerank.Reranker("a/b", "xendcg", epochs=3)) == "Reranker('a/b', objective='xendcg', epochs=3)"
    with pytest.raises(TypeError, match="batch_size"):
        reranker(tiny_folder, batch_size=3)


def test_a_cross_encoder_is_trained_itself(cross_encoder, parts):
    model = reranker(cross_encoder, epochs=1, max_length=20).fit(*parts)
    assert model.encoder is cross_encoder
    assert cross_encoder.max_seq_length == 20
    scores = cross_encoder.predict(list(parts[1].pairs()), show_progress_bar=False)
    np.testing.assert_allclose(model.predict(parts[1]), scores, atol=1e-5)  # logits, of both
    assert repr(model).startswith("Reranker(CrossEncoder, ")


def test_a_reranker_is_evaluated_and_compared_as_any_system(tiny_folder, parts, tmp_path):
    model, lists = reranker(tiny_folder), parts[1]
    lists = lists.with_(document_ids=[f"d{number}" for number in range(lists.n_docs)])
    scores = model.predict(lists)
    expected = rw.evaluate(scores, lists.data, ["ndcg@10", "rr"])
    found = rw.evaluate(model, lists, ["ndcg@10", "rr"])
    for metric, values in expected.values.items():
        np.testing.assert_array_equal(found[metric], values)
    assert found.candidates == lists.candidates
    run: dict[str, dict[str, float]] = {query: {} for query in lists.query_ids.tolist()}
    for query, document, score in zip(lists.data.qids(), lists.data.document_ids, scores, strict=True):
        run[str(query)][str(document)] = float(-score)
    rw.trec.write_run(-scores, lists, tmp_path / "reversed.run")
    compared = rw.compare(
        {"run": run, "file": tmp_path / "reversed.run", "reranker": model, "perfect": lists.labels}, lists, "ndcg"
    )
    means = compared.mean["ndcg"]
    assert means["perfect"] == 1.0
    assert means["reranker"] == rw.evaluate(scores, lists.data, "ndcg").mean["ndcg"]
    assert means["run"] == means["file"] == rw.evaluate(-scores, lists.data, "ndcg").mean["ndcg"]
    assert f"Candidates: {lists.candidates}." in " ".join(compared.to_text().split())
    refuses(lambda: rw.explain(model, lists), what="…which only rankers of features know", got="Reranker")
    with refusal(what="a reranker scores texts", got="RankingDataset", hint="pass rw.rerank.Lists…"):
        rw.evaluate(model, lists.data)


def test_documents_that_a_run_did_not_retrieve_count_and_are_not_ranked(parts):
    lists = parts[1].take([0])
    lists = lists.with_(document_ids=[f"d{number}" for number in range(lists.n_docs)])
    relevant = int(np.argmax(lists.labels))
    other = int(np.argmin(lists.labels))
    found = rw.evaluate({"q24": {f"d{other}": 1.0}}, lists, ["rr", "recall@10"])
    assert found.mean == {"rr": 0.0, "recall@10": 0.0}
    assert rw.evaluate({"q24": {f"d{relevant}": 1.0}}, lists, "rr").mean["rr"] == 1.0
    with refusal(what="run and data have no document in common", got="'q9' in the run, 'q24' in the data"):
        rw.evaluate({"q9": {"d0": 1.0}}, lists, "rr")
    refuses(lambda: rw.evaluate({"q24": {"d0": 1.0}}, parts[1].data, "rr"), got="data without document_ids")
