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
    from rankwise.wings.exports.onnx_drawing import Drawing
    from rankwise.wings.exports.onnx_models import draw_curve, draw_linear, draw_trees

    helper, single, double = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    drawing, kind = Drawing(), double
    if source.linear is not None:
        draw_linear(drawing, source.linear)
    elif source.drawn is not None:
        source.drawn.draw(drawing)
        kind = single
    else:
        nodes = source.trees("ONNX", within=True)
        draw_trees(drawing, nodes, within=source.within)
        kind = single if nodes.single else double
    if source.curve is not None:
        draw_curve(drawing, source.curve)
        kind = double
    drawing.steps[-1].output[0] = "scores"
    opsets = [helper.make_opsetid(domain, version) for domain, version in _OPSETS.items()]
    model = helper.make_model(
        helper.make_graph(
            drawing.steps,
            source.title,
            [helper.make_tensor_value_info("features", single, ["documents", source.n_features])],
            [helper.make_tensor_value_info("scores", kind, ["documents"])],
            drawing.constants,
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
