"""Vespa: the JSON that its importers of XGBoost and LightGBM read, from the folder ``models/`` of an application.

Trees with categories, and all trees of LightGBM, are written as LightGBM dumps them, ``lightgbm("FILE")`` in a rank
profile; the others as XGBoost does, ``xgboost("FILE")``. Features are rank features by their names.
"""

import re

from rankwise import check
from rankwise.serving.dumps import lightgbm_model, xgboost_trees
from rankwise.serving.source import ExportSource, Written

_RANK_FEATURE = re.compile(r"[A-Za-z_][\w.]*(\([^()]*\)(\.[\w.]+)?)?")


def write(source: ExportSource) -> Written:
    """Return the file."""
    names = source.known_names("Vespa")
    for name in names:
        if not _RANK_FEATURE.fullmatch(name):
            raise check.error(
                "the name of a feature must be a rank feature or a function of Vespa",
                got=repr(name),
                hint="name it as in attribute(price), fieldMatch(title).completeness or my_function",
            )
    nodes = source.trees("Vespa")
    like_lightgbm = source.model.name == "lightgbm" or nodes.categories
    content = lightgbm_model(nodes, names) if like_lightgbm else xgboost_trees(nodes, names)
    call = f'{"lightgbm" if like_lightgbm else "xgboost"}("{source.path.name}")'
    return Written(content.encode(), f"put it into models/ of the application, and write {call} in a rank profile")
