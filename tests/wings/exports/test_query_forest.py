"""Trees with values within the query in ONNX Runtime, and refused by what scores one document after the other."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

import rankwise as rw
from rankwise.rankers.table import ranker_class
from tests.refusals import refusal
from tests.wings.exports.test_linear import lists


def trained(library: str) -> Any:
    settings: dict[str, Any] = {"rounds": 40, "leaves": 8, "min_documents": 5, "learning_rate": 0.2, "threads": 1}
    return ranker_class(library)("xendcg", transform="raw+query", **settings).fit(lists())


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_onnx_scores_the_documents_of_a_query(library, tmp_path):
    model, fresh = trained(library), lists(100, 20, seed=2)
    sure = rw.calibrate(model, lists(60, 20, seed=3), "platt")
    assert fresh.n_docs > 1_900
    for number, one in enumerate((model, sure)):
        path = rw.export(one, tmp_path / f"{number}.onnx", "onnx")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        assert session.get_inputs()[0].shape == ["documents", 6]
        expected = one.predict(fresh)
        for start, end in zip(fresh.offsets[:-1], fresh.offsets[1:], strict=True):
            (scores,) = session.run(["scores"], {"features": fresh.features[start:end]})
            np.testing.assert_allclose(scores, expected[start:end], atol=1e-6, rtol=0)


def test_what_scores_one_document_after_the_other_is_refused_with_a_hint(tmp_path):
    model, names = trained("lightgbm"), [f"feature_{number}" for number in range(6)]
    systems = {"elasticsearch": "Elasticsearch's plugin", "solr": "Solr", "vespa": "Vespa", "treelite": "treelite"}
    for name, system in systems.items():
        with refusal(
            what=f"{system} scores documents one by one, and these trees compare them with the others of their query",
            got="transform='raw+query'",
            hint="train without transform, export to onnx or sql, or serve model.scorer()",
        ):
            rw.export(model, tmp_path / "model", name, names=names)
    assert not list(tmp_path.iterdir())
