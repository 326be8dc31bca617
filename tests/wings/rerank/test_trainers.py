"""Trainers of others take our loss as they are: sentence-transformers', to the model card, Hugging Face's, a loop."""

import pytest
import torch
from datasets import Dataset
from sentence_transformers import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator
from transformers import BertConfig, BertLMHeadModel, Trainer, TrainingArguments

import rankwise as rw
from tests.wings.rerank import tiny
from tests.wings.rerank.ranks import Gradients
from tests.wings.rerank.texts import RandomLists, gradients

# What the trainers and torch warn of themselves, on a machine without a GPU.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def dataset(lists, **columns):
    labels = [row.tolist() for row in lists.labels]
    return Dataset.from_dict({"query": lists.queries, "documents": lists.documents, **columns, "labels": labels})


def arguments(folder, kind=CrossEncoderTrainingArguments, **settings):
    quiet = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "logging_strategy": "epoch"}
    steps = {"num_train_epochs": 1, "per_device_train_batch_size": 2, "seed": 5, "learning_rate": 1e-3}
    return kind(output_dir=str(folder), **{**quiet, **steps, **settings})


@pytest.mark.parametrize("bound", [True, False])
def test_the_trainer_of_sentence_transformers_trains_evaluates_saves_and_writes_a_card(cross_encoder, tmp_path, bound):
    lists = RandomLists((3, 6, 2, 9))
    samples = [
        {"query": query, "positive": documents[:1], "negative": documents[1:]}
        for query, documents in zip(*lists.inputs, strict=True)
    ]
    evaluator = CrossEncoderRerankingEvaluator(samples, name="words", show_progress_bar=False)
    loss = rw.rerank.Loss("lambdarank", token_budget=200)
    before = cross_encoder.predict(lists.pairs)
    trainer = CrossEncoderTrainer(
        model=cross_encoder,
        args=arguments(tmp_path / "run", num_train_epochs=4, eval_strategy="epoch"),
        train_dataset=dataset(lists),
        eval_dataset=dataset(lists),
        loss=loss(cross_encoder) if bound else loss,
        evaluator=evaluator,
    )
    trainer.train()
    logged = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert logged[-1] < logged[0]
    cross_encoder.save_pretrained(str(tmp_path / "model"))
    after = cross_encoder.predict(lists.pairs)
    assert abs(after - before).max() > 1e-3
    loaded = CrossEncoder(str(tmp_path / "model"), device="cpu", local_files_only=True)
    assert loaded.predict(lists.pairs) == pytest.approx(after, abs=1e-6)
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert "rankwise.wings.rerank.loss.BoundLoss" in card
    assert '"objective": "lambdarank"' in card
    assert "@software{rankwise" in card
    assert "CrossEncoderRerankingEvaluator" in card


def test_the_trainer_of_sentence_transformers_passes_teacher_scores_and_weights(cross_encoder, tmp_path):
    lists = RandomLists((3, 6, 2, 9))
    columns = {
        "teacher_scores": [[0.5 * len(text) for text in some] for some in lists.documents],
        "weight": [1.0, 0, 2, 1],
    }
    loss = rw.rerank.Loss("0.5*distil + 0.5*lambdarank", columns=("teacher_scores", "weight"))
    trainer = CrossEncoderTrainer(
        model=cross_encoder, args=arguments(tmp_path), train_dataset=dataset(lists, **columns), loss=loss
    )
    assert trainer.train().training_loss > 0


def test_accumulated_gradients_are_those_of_one_batch(tmp_path):
    lists = RandomLists((3, 6, 2, 9))
    folder = tiny.save(tmp_path / "model", dropout=0.0)
    found = []
    for size, steps in ((4, 1), (1, 4)):
        watch = Gradients()
        settings = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps, "max_grad_norm": 0.0}
        trainer = CrossEncoderTrainer(
            model=tiny.cross_encoder(folder),
            args=arguments(tmp_path / str(size), **settings),
            train_dataset=dataset(lists),
            loss=rw.rerank.Loss("lambdarank", mini_batch_size=3),
            callbacks=[watch],
        )
        trainer.train()
        found.append(watch.found)
    assert [len(each) for each in found] == [1, 1]
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-5, rtol=1e-4)


class ListTrainer(Trainer):
    """What a user of Hugging Face's trainer writes."""

    loss = rw.rerank.Loss("lambdarank", token_budget=150)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels, offsets = inputs.pop("labels"), inputs.pop("offsets")
        value = self.loss.of(lambda batch: model(**batch), inputs, labels, offsets, model=model)
        return (value, {}) if return_outputs else value


def test_hugging_faces_trainer_lowers_the_loss(tmp_path):
    lists = RandomLists((3, 6, 2, 9))
    words = tiny.tokenizer()
    model = tiny.bert(len(words), dropout=0.0)

    def collate(rows):
        pairs = [(row["query"], document) for row in rows for document in row["documents"]]
        sizes = torch.tensor([len(row["documents"]) for row in rows])
        encoded = words(*map(list, zip(*pairs, strict=True)), padding=True, truncation=True, return_tensors="pt")
        labels = torch.tensor([label for row in rows for label in row["labels"]])
        return {**encoded, "labels": labels, "offsets": torch.nn.functional.pad(sizes.cumsum(0), (1, 0))}

    settings = {"remove_unused_columns": False, "num_train_epochs": 4, "label_names": ["labels"]}
    trainer = ListTrainer(
        model=model,
        args=arguments(tmp_path, TrainingArguments, **settings),
        train_dataset=dataset(lists),
        data_collator=collate,
    )
    trainer.train()
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged[-1] < logged[0]


def whole_graph(score, inputs, lists, objective="lambdarank"):
    value = rw.torch_loss(objective)(score(inputs).flatten().float(), lists.flat_labels, lists.offsets)
    value.backward()
    return value.item()


def test_a_language_model_scores_by_the_logit_of_a_token():
    lists = RandomLists((3, 6, 2))
    words = tiny.tokenizer()
    words.padding_side = "left"
    yes = words.convert_tokens_to_ids("yes")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(
        vocab_size=len(words), is_decoder=True, max_position_embeddings=64, initializer_range=0.2, **sizes
    )
    model = BertLMHeadModel(config).eval()
    prompts = [f"{query} ? {document} yes or no" for query, document in lists.pairs]
    encoded = words(prompts, padding=True, truncation=True, return_tensors="pt")

    def score(batch):
        # Padding on the left must not shift the positions of words.
        places = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
        return model(**batch, position_ids=places).logits[:, -1, yes]

    expected = whole_graph(score, encoded, lists)
    whole = gradients(model)
    model.zero_grad()
    value = rw.rerank.Loss("lambdarank", token_budget=120).of(score, encoded, lists.flat_labels, lists.offsets)
    value.backward()
    assert value.item() == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradients(model), whole, atol=1e-5, rtol=1e-4)


def test_late_interaction_scores_by_the_best_match_of_each_word():
    lists = RandomLists((3, 6, 2))
    words = tiny.tokenizer()
    torch.manual_seed(0)
    vectors = torch.nn.Embedding(len(words), 8)

    def score(pairs):
        scores = []
        for query, document in pairs:
            query_vectors, document_vectors = (
                torch.nn.functional.normalize(vectors(torch.tensor(words(text)["input_ids"])), dim=1)
                for text in (query, document)
            )
            scores.append((query_vectors @ document_vectors.T).amax(1).sum())
        return torch.stack(scores)

    expected = whole_graph(score, lists.pairs, lists)
    whole = gradients(vectors)
    vectors.zero_grad()
    loss = rw.rerank.Loss("lambdarank", mini_batch_size=4)
    value = loss.of(score, lists.pairs, lists.flat_labels, lists.offsets, model=vectors)
    value.backward()
    assert value.item() == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(gradients(vectors), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_training_that_resumes_ends_in_the_same_model_where_the_loss_draws(accumulated, tmp_path):
    lists = RandomLists((3, 2, 4, 3, 2))
    folder = tiny.save(tmp_path / "model")
    loss = rw.rerank.Loss("xendcg")

    def trained(resume):
        model = tiny.cross_encoder(folder)
        trainer = CrossEncoderTrainer(
            model=model,
            args=arguments(
                tmp_path / "run", num_train_epochs=2, gradient_accumulation_steps=accumulated,
                save_strategy="steps", save_steps=1, save_only_model=False,
            ),
            train_dataset=dataset(lists),
            loss=loss if resume else loss(model),
        )  # fmt: skip
        trainer.train(resume_from_checkpoint=resume)
        return torch.cat([one.detach().flatten() for one in model.parameters()])

    whole = trained(None)
    resumed = trained(str(tmp_path / "run" / "checkpoint-1"))  # within the first epoch of three batches
    torch.testing.assert_close(resumed, whole, rtol=0, atol=0)


def test_a_loop_of_ones_own_resumes_what_the_loss_draws(cross_encoder):
    lists = RandomLists((3, 6))
    loss = rw.rerank.Loss(cross_encoder.eval(), "xendcg", seed=3)
    first, state = loss(lists.inputs, lists.labels).item(), loss.state_dict()
    second = loss(lists.inputs, lists.labels).item()
    again = rw.rerank.Loss(cross_encoder, "xendcg")
    again.load_state_dict(state)
    assert again(lists.inputs, lists.labels).item() == second != first

    def value(unbound):
        return unbound.of(cross_encoder, cross_encoder.preprocess(lists.pairs), lists.flat_labels, lists.offsets).item()

    unbound = rw.rerank.Loss("xendcg", seed=3)
    first, state = value(unbound), unbound.state_dict()
    second, resumed = value(unbound), rw.rerank.Loss("xendcg")
    resumed.load_state_dict(state)
    assert value(resumed) == second != first
