"""Each of two processes: ``python -m tests.wings.rerank.ranks FOLDER``, which forks them when all is imported."""

import multiprocessing
import os
import sys
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import CrossEncoderTrainer, CrossEncoderTrainingArguments
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainerCallback

import rankwise as rw
from tests.wings.rerank import tiny
from tests.wings.rerank.texts import RandomLists, gradients

SIZES = (3, 8, 2, 9, 5, 1)
WEIGHTS = (1.0, 0.5, 2.0, 1.0, 3.0, 1.0)
OBJECTIVE = "stochastic(xendcg, samples=2)"


class Gradients(TrainerCallback):
    """The gradient of each step, before the optimizer has it."""

    def __init__(self):
        self.found = []

    def on_pre_optimizer_step(self, args, state, control, model, **_):
        self.found.append(gradients(model))


def step(model, numbers):
    """Value and gradient of one step over the lists of these numbers, and of two that are accumulated."""
    lists = RandomLists(SIZES)
    wrapped = model
    if torch.distributed.is_initialized():
        wrapped = DistributedDataParallel(model)
        wrapped.preprocess = model.preprocess
    loss = rw.rerank.Loss(wrapped, OBJECTIVE, columns=("weight",), token_budget=100)
    part = lists.take(numbers)
    inputs = [*part.inputs, [WEIGHTS[number] for number in numbers]]
    value = loss(inputs, part.labels)
    value.backward()
    first = gradients(model)
    model.zero_grad()
    loss = rw.rerank.Loss(wrapped, OBJECTIVE, columns=("weight",), token_budget=100)
    if torch.distributed.is_initialized():
        with wrapped.no_sync():
            loss(inputs, part.labels).backward()
    else:
        loss(inputs, part.labels).backward()
    loss(inputs, part.labels).backward()
    return value.item(), first, gradients(model)


def trained(folder, size):
    """The gradient of a step of sentence-transformers' trainer with ``size`` lists on each rank."""
    lists, watch = RandomLists(SIZES), Gradients()
    labels = [row.tolist() for row in lists.labels]
    data = Dataset.from_dict({"query": lists.queries, "documents": lists.documents, "labels": labels})
    arguments = CrossEncoderTrainingArguments(
        output_dir=str(folder / f"run{size}"),
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo" if torch.distributed.is_initialized() else None,
        max_steps=1,
        max_grad_norm=0.0,
        per_device_train_batch_size=size,
        save_strategy="no",
    )
    loss = rw.rerank.Loss("lambdarank", token_budget=100)
    model = tiny.cross_encoder(folder / "model")
    CrossEncoderTrainer(model=model, args=arguments, train_dataset=data, loss=loss, callbacks=[watch]).train()
    return watch.found[0]


def main(folder, rank):
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    torch.distributed.init_process_group("gloo")
    # Ranks have different numbers of lists, and of mini-batches.
    found = step(tiny.cross_encoder(folder / "model"), [[0, 1, 3, 4], [2, 5]][rank])
    torch.save((found, trained(folder, 3)), folder / f"rank{rank}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    children = [multiprocessing.get_context("fork").Process(target=main, args=(Path(sys.argv[1]), n)) for n in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    sys.exit(any(child.exitcode for child in children))
