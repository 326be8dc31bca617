"""Hints of the library in the words of each command."""

import pytest
import typer

from rankwise.check import Message
from rankwise.cli.app import app
from rankwise.cli.command import advice

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
COMMANDS |= {f"rerank {name}": one for name, one in COMMANDS["rerank"].commands.items()}

CASES = [
    ("train", "`set rounds=…`", "use --rounds …"),
    ("train", "`set learning_rate=0.1` or lower `leaves=`", "use --learning-rate 0.1 or lower --leaves"),
    ("train", "`set device='cpu'` or `device='auto'`", "use --device cpu or --device auto"),
    (
        "train",
        "train on all data at once, or `set one_hot_max_size=255`",
        "train on all data at once, or use --set one_hot_max_size=255",
    ),
    ("train", "`pass sort=True`, or sort the rows by query id", "use --read sort=true, or sort the rows by query id"),
    ("train", "name it in `categorical=[…]`, or leave it out", "name it in --categorical …, or leave it out"),
    ("train", "leave the column out with `features=[…]`", "leave the column out with --features …"),
    ("train", "leave it out with `features=['!title']`", "leave it out with --features '!title'"),
    ("train", "leave it out with `features=['!my shop']`", "leave it out with --features '!my shop'"),
    ("train", "lower `min_documents`, and look at the features", "lower --min-documents, and look at the features"),
    ("train", "give such queries a value, as in ndcg(empty=0)@10", "give such queries a value, as in ndcg(empty=0)@10"),
    ("train", "set gain=linear", "set gain=linear"),
    ("train", "continue it with fit(…, init_model=…)", "continue it with fit(…, init_model=…)"),
    ("train", "choose another name, or allow it with `force`", "choose another name, or allow it with --force"),
    ("train", "`set format='csv'`, or leave `fold` out", "use --data-format csv, or leave --fold out"),
    ("rerank score", "`set format='csv'`", "use --read format=csv"),
    (
        "train",
        "name a data folder with `folder=` or RANKWISE_DATA, or `pass download=True`",
        "name a data folder with --data-folder or RANKWISE_DATA, or use --download",
    ),
    ("tune", "fix it: `fixed={'debias': True}|--set 'debias=true'`", "fix it: --set 'debias=true'"),
    (
        "tune",
        "ranges: `search={'leaves': log(7, 63)}|--search 'leaves=log(7, 63)'`",
        "ranges: --search 'leaves=log(7, 63)'",
    ),
    (
        "tune",
        "resume the search in it with `resume=True`, or name another",
        "resume the search in it with --resume, or name another",
    ),
    ("evaluate", "`set policy='plackett_luce'`", "use --policy plackett_luce"),
    ("evaluate", "for example `metrics='ndcg@10'`", "for example --metrics ndcg@10"),
    ("explain", "`set query=…`, one of a, b", "use --query …, one of a, b"),
    (
        "export",
        "name all 6 with `names=[…]`, in the order of training",
        "name all 6 with --names …, in the order of training",
    ),
    ("train", "name it `document_weight=` if it belongs", "name it --read document_weight=… if it belongs"),
    ("objectives", "`set rounds=…`", "set rounds=…"),
    (
        "recommend",
        "keep one of the rows, or `set rating=None|use --implicit`",
        "keep one of the rows, or use --implicit",
    ),
    ("recommend", "name it: --model als --set factors=32", "name it: --model als --set factors=32"),
    ("evaluate", "keep it, or `set rating=None|use --implicit`", "keep it, or set rating=None"),
    ("tune", "search without pruning, `prune=False`", "search without pruning, --no-prune"),
    ("train", "leave out with `features=['!a', '!b']` what leaks", "leave out with --features '!a,!b' what leaks"),
    ("train", "continue it, init_model=…, or not", "continue it, init_model=…, or not"),
    ("train", "choose one of learning_rate, weight_decay", "choose one of learning_rate, weight_decay"),
]


@pytest.mark.parametrize(("name", "hint", "expected"), CASES)
def test_hints_name_options(name: str, hint: str, expected: str):
    start = "rounds=3 is too few: got `rounds=3`"
    assert advice(Message(start, hint=hint), COMMANDS[name]) == f"{start}. Hint: {expected}."


def test_an_error_without_a_hint_stays_as_it_is():
    assert advice(Message("`set rounds=3`"), COMMANDS["train"]) == "`set rounds=3`."
