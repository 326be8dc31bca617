"""The examples run as they stand."""

import runpy
from pathlib import Path

import pytest

import rankwise as rw

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_an_objective_of_ones_own_in_forty_lines(capsys):
    names = runpy.run_path(str(EXAMPLES / "squared_hinge.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "squared_hinge keeps the contract" in printed
    assert "ndcg@10" in printed
    text = (EXAMPLES / "squared_hinge.py").read_text(encoding="utf-8")
    objective = text[text.index("@dataclass") : text.index("if __name__")].strip()
    assert len(objective.splitlines()) <= 40
    hinge = names["SquaredHinge"](margin=1.0)
    ours = rw.Pairwise(loss="squared_hinge")
    data = rw.synthetic(n_queries=5, n_features=2, seed=1)
    scores = data.features[:, 0].astype(float)
    for one, other in zip(
        hinge(scores, data.labels, data.offsets), ours(scores, data.labels, data.offsets), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
