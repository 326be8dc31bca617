"""The command ``rerank train``."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import Option, Unset, declared
from rankwise.cli import arguments, console, inputs
from rankwise.cli.options import But, Of, Only
from rankwise.cli.rerank import text_options
from rankwise.cli.running import Running

if TYPE_CHECKING:
    from rankwise.rerank.data.lists import Lists
    from rankwise.rerank.reranker import Reranker


def _rerankers() -> Mapping[str, Sequence[Callable[..., Any]]]:
    """Return the class whose parameters are options."""
    text_options.installed()
    from rankwise.rerank.reranker import Reranker

    return {"Training": [Reranker]}


def train(
    data: Annotated[str, f"Training data: {text_options.FORMS}", Option(metavar="TRAIN")],
    *,
    model: Annotated[
        str, "What training begins from: a model of the Hugging Face Hub, or a folder.", Option(metavar="MODEL")
    ],
    output: arguments.Folder,
    valid: arguments.Valid = None,
    test: Annotated[str | None, "Test data: measured at the end, for the model card.", Option(metavar="DATA")] = None,
    objective: Annotated[arguments.Objective, Unset("softmax_ce")] = None,
    settings: Annotated[Keywords, Of(_rerankers), But("model")],
    set_: Annotated[
        Keywords, "Another setting of rw.rerank.Reranker; may be repeated.", Option(metavar="NAME=VALUE")
    ] = inputs.NONE,
    texts: text_options.TextReading,
    resume: arguments.Resume = False,
    running: Annotated[Running, Only("seed", "progress", "force", "json")],
) -> None:
    """Train a reranker on lists of texts and write it to a folder, which sentence-transformers opens too.

    Its model card has the metrics on validation and test data, with intervals. Ctrl-C interrupts the training and keeps
    the best part so far.

    rankwise rerank train train.jsonl --valid valid.jsonl --model ./base -o reranker
    rankwise rerank train train.jsonl --model ./base --objective lambdarank --epochs 2 -o reranker
    rankwise rerank train scifact:train --run bm25.run --negatives 15 --model ./base -o reranker
    """
    text_options.installed()
    running = running.free_model(output, resume=resume)
    if "checkpoint" in settings:
        from rankwise.rankers.training.resume import check_checkpoint_target

        check_checkpoint_target(settings["checkpoint"], resume=resume)
    inputs.readable(objective, settings.get("metrics", ()))
    reranker = _reranker(model, settings | ({} if objective is None else {"objective": objective}), set_)
    with running.steps(3) as bar:
        lists: dict[str, Lists] = {}
        for part, (name, split) in {"train": (data, "train"), "valid": (valid, "dev"), "test": (test, "test")}.items():
            if name is not None:
                bar.step(f"Reading {name}")
                lists[part] = texts.lists(name, split=split, seed=running.seed, measured=part != "train")
    if "test" in lists:
        lists["test"].compare_with(lists["train"], "test")
    with console.notes_after() as notes:
        reranker.fit(lists["train"], lists.get("valid"), resume=resume)
    tested = {"test": reranker.evaluate(lists["test"])} if "test" in lists else {}
    reranker.save(output, evaluations=tested, force=running.force)
    evaluations = reranker.evaluations_ | {name: one.to_dict() for name, one in tested.items()}
    from rankwise.rerank import summary

    document, table = summary.described(reranker, output, evaluations), summary.table(reranker, evaluations)
    running.show(document, ("", table), notes=notes, wrote=(output,), stopped=reranker.stopped_)


def _reranker(model: str, settings: Keywords, further: Keywords) -> "Reranker":
    """Make the reranker, and complain of a model or settings that will not do before the work begins."""
    from rankwise.rerank import encoders
    from rankwise.rerank.reranker import Reranker

    encoders.verify(encoders.folder_of(model))
    names = [name for name in declared(Reranker) if name != "model"]
    for name in further:
        if name not in names:
            hint = check.suggestion(name, names, arguments=True).rstrip("?")
            raise check.error("unknown setting of a reranker", got=repr(name), hint=hint)
    return Reranker(model, **settings | further)
