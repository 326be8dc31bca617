"""Treelite: trees for its own predictor, its compiler to C and the servers that read it."""

from typing import Any

from rankwise import check
from rankwise.models import LEAF, Nodes
from rankwise.wings.exports.export_source import ExportedFile, ExportSource


def write(source: ExportSource) -> ExportedFile:
    """Return the file, as ``treelite.Model.deserialize`` reads it."""
    trees = source.trees("treelite")
    check.optional("treelite", "export")
    load = f'treelite.gtil.predict(treelite.Model.deserialize("{source.path}"), matrix)'
    return ExportedFile(bytes(_model(trees).serialize_bytes()), load)


def _model(nodes: Nodes) -> Any:
    """Build the model: numbers are compared and added up in the precision that the library uses."""
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    number = "float32" if nodes.single else "float64"
    count = nodes.roots.size
    builder: Any = ModelBuilder(
        threshold_type=number,
        leaf_output_type=number,
        metadata=Metadata(
            num_feature=nodes.n_features,
            task_type="kRegressor",
            average_tree_output=False,
            num_target=1,
            num_class=[1],
            leaf_vector_shape=(1, 1),
        ),
        tree_annotation=TreeAnnotation(num_tree=count, target_id=[0] * count, class_id=[0] * count),
        postprocessor=PostProcessorFunc(name="identity"),
        base_scores=[0.0],
    )
    feature, left, right = nodes.feature.tolist(), nodes.left.tolist(), nodes.right.tolist()
    threshold, missing_left, value = nodes.threshold.tolist(), nodes.missing_left.tolist(), nodes.value.tolist()
    for first, last in nodes.trees():
        builder.start_tree()
        for node in range(first, last):
            builder.start_node(node - first)
            children = {"left_child_key": left[node] - first, "right_child_key": right[node] - first}
            if feature[node] == LEAF:
                builder.leaf(value[node])
            elif node in nodes.categories:
                builder.categorical_test(
                    feature_id=feature[node],
                    default_left=missing_left[node],
                    category_list=list(nodes.categories[node]),
                    category_list_right_child=False,
                    **children,
                )
            else:
                builder.numerical_test(
                    feature_id=feature[node],
                    threshold=threshold[node],
                    default_left=missing_left[node],
                    opname="<=",
                    **children,
                )
            builder.end_node()
        builder.end_tree()
    return builder.commit()
