"""How a reranker is trained and scores: what it is made of is put together here, and the one loop does the rest."""

import contextlib
import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import caches, check, user_code
from rankwise.arrays import Array
from rankwise.evaluation.evaluate import evaluate
from rankwise.metrics import metrics as find_metrics
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as find_objective
from rankwise.plain import Json
from rankwise.rankers import storage
from rankwise.rankers.base import objective_expression
from rankwise.rankers.training import columns
from rankwise.rankers.training.checkpoints import FREE, Checkpoint, fingerprint
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.loop import History, Loop, State
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.training.validation import Measure, Measured, Validation
from rankwise.rerank import encoders, folder, watching
from rankwise.rerank.batching import Batching
from rankwise.rerank.card import VALIDATION
from rankwise.rerank.data.lists import Lists
from rankwise.rerank.schedule import Steps
from rankwise.threads import checked, thread_count, use_threads

if TYPE_CHECKING:
    import torch
    from sentence_transformers import CrossEncoder

    from rankwise.rerank.learner import RerankLearner
    from rankwise.rerank.reranker import Reranker, Texts

UNIT = "parts"
_BF16 = {"auto": (True, False), "bf16": (True, True), "float32": (False, False)}
"""Whether training on a GPU, and whether anything else, computes in bfloat16."""


def opened(reranker: "Reranker") -> "CrossEncoder":
    """Open the model that training begins from, on its device."""
    check.extra("sentence_transformers", "rerank")  # noqa: S610 (not a query of Django)
    device = str(_device(reranker))
    if not isinstance(reranker.model, str | Path):
        encoder = reranker.model
        encoder.to(device)
        encoder.activation_fn = encoders.no_activation()
        if reranker.max_length is not None:
            encoder.max_seq_length = reranker.max_length
        return encoder
    place = encoders.folder_of(reranker.model)
    seed = check.integer("seed", reranker.seed, least=0)
    return encoders.open_encoder(place, device=device, seed=seed, max_length=reranker.max_length)


def scores(reranker: "Reranker", texts: "Texts") -> Array:
    """Score lists, or pairs of texts, one by one."""
    from rankwise.rankers.nets.learner import torch_threads
    from rankwise.rerank.scoring import scored

    pairs = list(texts.pairs()) if isinstance(texts, Lists) else _pairs(texts)
    mixed = _BF16[check.choice("precision", reranker.precision, _BF16)][1]
    encoder = reranker.encoder
    if not hasattr(reranker, "history_") and isinstance(reranker.model, str | Path):
        encoders.check_head(encoders.folder_of(reranker.model))
    with _own_threads(reranker), torch_threads():
        return scored(encoder, pairs, Batching(reranker.token_budget), mixed=mixed)


def fit(
    reranker: "Reranker",
    train: Lists,
    valid: Lists | None,
    *,
    resume: bool,
    watch: Callable[[int, History], None] | None,
) -> None:
    """Train a reranker, and leave in it the best model and how it came about."""
    for name, lists in {"train": train, "valid": valid}.items():
        if not isinstance(lists, Lists | None) or (lists is None and name == "train"):
            hint = "make them with rw.rerank.Lists.from_lists(queries, documents, labels), or read them from a file"
            raise check.error(f"{name} must be Lists", got=type(lists).__name__, hint=hint)
    if valid is not None:
        valid.compare_with(train, "validation")
    with Interrupts() as interrupts, _own_threads(reranker), caches.announce_compiling(reranker.progress):
        with interrupts.allowed():
            metrics = find_metrics(reranker.metrics)
            validation = None if valid is None else Validation(valid.data, metrics, debias=reranker.debias)
            steps = _steps(reranker, train)
            stopping = Stopping(
                rounds=steps.rounds,
                metrics=() if validation is None else validation.names,
                patience=reranker.patience,
                unit=UNIT,
            )
            learner = _learner(reranker, train, valid, steps)
            measured = []
            if valid is not None and validation is not None:
                measured = [Measured(Measure(valid.data, validation))]
            checkpoint = _checkpoint(reranker, train, valid, learner.encoder, resume=resume)
            state, best = State(), None
            if checkpoint is not None and (found := checkpoint.read(resume=resume)) is not None:
                state, contents = found
                with storage.making_sense(checkpoint.path):
                    best = learner.resume(contents, state)
        wanted = reranker.progress if learner.processes.first else False
        done = steps.of_round(state.done - 1).stop if state.done else 0
        with watching.showing(wanted, stopping, steps.total, done) as (learner.told, show):
            reports = [show] if watch is None else [show, lambda state: watch(state.done, state.history)]
            loop = Loop(
                learner=learner,
                stream=train.stream(reranker.seed),
                stopping=stopping,
                measured=measured,
                checkpoint=checkpoint,
                reports=reports,
            )
            state = loop.run(state, best, interrupts)
        reranker.encoder_ = learner.encoder
        reranker.epochs_ = state.best / steps.per_part
        reranker.history_, reranker.best_round_, reranker.stopped_ = state.history, state.best, state.stopped
        reranker.trained_on_ = {"training": _size(train), **({} if valid is None else {"validation": _size(valid)})}
        reranker.base_model_ = _base_model(reranker)
        reranker.evaluation_, reranker.evaluations_ = None, {}
        if valid is not None and (learner.best_scores is not None or learner.processes.first):
            best_scores = learner.best_scores  # none where the best part was one before training was resumed
            best_scores = scores(reranker, valid) if best_scores is None else best_scores
            reranker.evaluation_ = evaluate(best_scores, valid, metrics)
            reranker.evaluations_ = {VALIDATION: reranker.evaluation_.to_dict()}
    if interrupts.asked:  # after the last part
        reranker.stopped_ = "interrupted"
    if reranker.stopped_ == "interrupted":
        kept = f"the best model so far, of {state.best} {UNIT}, is kept"
        warnings.warn(f"interrupted after part {state.done}: {kept}", RuntimeWarning, stacklevel=3)


def _learner(reranker: "Reranker", train: Lists, valid: Lists | None, steps: Steps) -> "RerankLearner":
    """Check every setting and give what learns."""
    from rankwise.rerank.learner import RerankLearner

    objective = find_objective(reranker.objective)
    documents = columns.of_documents(train.data, objective, debias=reranker.debias)
    mixed = _BF16[check.choice("precision", reranker.precision, _BF16)]
    device = _device(reranker)
    return RerankLearner(
        encoder=opened(reranker),
        objective=objective,
        train=train,
        documents=documents,
        held_out=[] if valid is None else [valid],
        steps=steps,
        batching=Batching(reranker.token_budget),
        weight_decay=check.number("weight_decay", reranker.weight_decay, least=0.0),
        max_grad_norm=check.number("max_grad_norm", reranker.max_grad_norm, least=0.0, open_ends=True),
        seed=reranker.seed,
        device=device,
        mixed=mixed[0] and (mixed[1] or device.type == "cuda"),
        mixed_scores=mixed[1],
    )


def _steps(reranker: "Reranker", train: Lists) -> Steps:
    return Steps(
        epochs=reranker.epochs,
        parts=reranker.parts,
        batch_queries=reranker.batch_queries,
        queries=train.n_queries,
        learning_rate=reranker.learning_rate,
        warmup=reranker.warmup,
    )


def _checkpoint(
    reranker: "Reranker", train: Lists, valid: Lists | None, encoder: "CrossEncoder", *, resume: bool
) -> Checkpoint | None:
    every = check.integer("checkpoint_every", reranker.checkpoint_every, least=1)
    if reranker.checkpoint is None:
        if resume:
            raise check.error("resume needs a checkpoint", hint="set checkpoint=…, the folder where it is")
        return None
    free = {"model", "objective", *FREE} - {"epochs"}  # on which the learning rate of every step depends
    identity: Json = {
        "ranker": folder.NAME,
        "objective": objective_expression(reranker.objective),
        "data": {
            "model": _digest_of_weights(encoder),
            "train": _digest(train),
            "valid": None if valid is None else _digest(valid),
        },
        "parameters": {name: value for name, value in reranker.settings().items() if name not in free},
    }
    if code := user_code.digests(find_objective(reranker.objective), find_metrics(reranker.metrics)):
        identity["code"] = code
    return Checkpoint(Path(reranker.checkpoint), every, identity=identity, describe=_versions, unit=UNIT)


def _versions(_: State) -> Mapping[str, object]:
    return {"versions": versions()}


def paper(objective: ObjectiveLike) -> str:
    """Where an objective comes from, if it is known."""
    try:
        return find_objective(objective).paper
    except ValueError:  # the name of somebody's function, in a model that was loaded
        return ""


def _base_model(reranker: "Reranker") -> str:
    """The name on the Hub that training began from; empty for a folder, whose name says nothing elsewhere."""
    named = isinstance(reranker.model, str) and not Path(reranker.model).is_dir()
    return str(reranker.model) if named else getattr(reranker, "base_model_", "")


def versions() -> dict[str, str]:
    """The versions of what a reranker is made with."""
    import sentence_transformers
    import torch
    import transformers

    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sentence-transformers": sentence_transformers.__version__,
    }


def _digest(lists: Lists) -> str:
    """A digest of what training sees of lists."""
    digest = hashlib.blake2b(fingerprint(lists.data).encode(), digest_size=16)
    for text in (*lists.queries, *lists.documents):
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def _digest_of_weights(encoder: "CrossEncoder") -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, one in encoder.state_dict().items():
        digest.update(f"{name}{one.dtype}{tuple(one.shape)}".encode())
        digest.update(one.detach().cpu().contiguous().view(-1).view(dtype=_bytes()).numpy().data)
    return digest.hexdigest()


def _bytes() -> "torch.dtype":
    import torch

    return torch.uint8


def _pairs(texts: Any) -> list[tuple[str, str]]:
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        hint = "pass rw.rerank.Lists, which rw.evaluate and rw.compare take too, or [(query, document), …]"
        raise check.error("a reranker scores texts", got=type(texts).__name__, hint=hint)
    pairs = [tuple(one) if isinstance(one, list | tuple) else one for one in texts]
    for number, one in enumerate(pairs):
        if not isinstance(one, tuple) or len(one) != 2 or not all(isinstance(text, str) for text in one):
            hint = "pass Lists, or [(query, document), …]"
            raise check.error("texts must be pairs", got=repr(one)[:80], where=f"number {number}", hint=hint)
    return pairs


def _device(reranker: "Reranker") -> "torch.device":
    from rankwise.rankers.nets.processes import usable_device

    return usable_device(reranker.device)


def _size(lists: Lists) -> str:
    return f"{lists.n_queries:,} queries, {lists.n_docs:,} documents"


@contextlib.contextmanager
def _own_threads(reranker: "Reranker") -> Iterator[None]:
    with use_threads(thread_count() if reranker.threads is None else checked(reranker.threads)):
        yield
