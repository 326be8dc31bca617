"""ONNX: one graph from a matrix of features to scores, for ONNX Runtime and everything that carries it.

The input ``features`` is float32, (documents, features), with NaN for missing values; the output ``scores`` has one
number per document. Trees are one operator, TreeEnsemble (ai.onnx.ml 5, ONNX Runtime 1.20 and later). It compares
numbers of the kind that it adds up, so trees of LightGBM and CatBoost see the features as float64, where both are
exact; those of XGBoost are added up in float32, as XGBoost does. With values within the query, a call has the documents
of one query.
"""

from typing import Any

import rankwise as rw
from rankwise import check
from rankwise.wings.exports.export_source import ExportedFile, ExportSource

_OPSETS = {"": 20, "ai.onnx.ml": 5}


def write(source: ExportSource) -> ExportedFile:
    """Return the file."""
    onnx: Any = check.optional("onnx", "export")
    from rankwise.wings.exports.onnx_models import calibrated_graph, linear_graph, trees_graph

    helper = onnx.helper
    if source.linear is not None:
        graph = linear_graph(source.linear)
    elif source.drawn is not None:
        graph = source.drawn.onnx_graph()
    else:
        graph = trees_graph(source.trees("ONNX", within=True), within=source.within)
    if source.curve is not None:
        graph = calibrated_graph(graph, source.curve)
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    model = helper.make_model(
        helper.make_graph(
            graph.steps,
            source.title,
            [helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["documents", source.n_features])],
            [helper.make_tensor_value_info("scores", graph.kind, ["documents"])],
            graph.constants,
        ),
        opset_imports=opsets,
        ir_version=helper.find_min_ir_version_for(opsets),
        producer_name="rankwise",
        producer_version=rw.__version__,
    )
    names = {} if source.names is None else {"features": "\n".join(source.names)}
    helper.set_model_props(model, source.notes | names)
    onnx.checker.check_model(model)
    load = f'onnxruntime.InferenceSession("{source.path}").run(["scores"], {{"features": matrix}})'
    return ExportedFile(bytes(model.SerializeToString()), load)
