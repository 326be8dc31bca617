"""Private things of other libraries that rankwise relies on: an upgrade that drops one fails here, and says which."""

import inspect
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.table import ranker_class
from rankwise.rankers.trees.xgboost.ranker import XGBoost

NAMES = [
    # (module, attribute, the file of rankwise that needs it)
    ("numba.core.caching", "NullCache", "compiling.py"),
    ("numba.core.compiler", "CompileResult._rebuild", "compiling.py"),
    ("numba.core.compiler", "CompileResult._reduce", "compiling.py"),
    ("numba.core.serialize", "dumps", "compiling.py"),
    ("numba.core.codegen", "JITCodeLibrary._finalize_dynamic_globals", "compiling.py"),
    ("numba.core.codegen", "JITCodeLibrary._optimize_final_module", "compiling.py"),
    ("numba.core.codegen", "JITCodeLibrary._finalize_final_module", "compiling.py"),
    ("numba.core.compiler", "Compiler.define_pipelines", "compiling.py"),
    ("numba.core.compiler", "CompileResult._find_referenced_environments", "compiling.py"),
    ("numba.core.registry", "CPUDispatcher.get_call_template", "compiling.py"),
    ("numba.core.registry", "CPUDispatcher.add_overload", "compiling.py"),
    ("numba.core", "cgutils", "data/io/letor/decimals.py"),
    ("numba.extending", "intrinsic", "models/scoring/quickscorer.py"),
    ("llvmlite.ir", "IRBuilder.shuffle_vector", "models/scoring/quickscorer.py"),
    ("llvmlite.ir", "IRBuilder.insert_element", "models/scoring/quickscorer.py"),
    ("llvmlite.ir", "IRBuilder.cttz", "models/scoring/quickscorer.py"),
    ("llvmlite.ir", "VectorType", "models/scoring/quickscorer.py"),
    ("lightgbm.basic", "_ConfigAliases._get_all_param_aliases", "rankers/trees/lightgbm/ranker.py"),
    ("lightgbm.basic", "LightGBMError", "models/forests/lightgbm.py"),
    ("lightgbm.basic", "_LOGGER", "models/forests/lightgbm.py"),
    ("lightgbm", "Dataset._set_init_score_by_predictor", "rankers/trees/lightgbm/data.py"),
    ("lightgbm.sklearn", "LGBMNotFittedError", "rankers/trees/lightgbm/model.py"),
    ("xgboost.core", "XGBoostError", "models/forests/xgboost.py"),
    ("torch", "_foreach_lerp_", "models/torch/weights.py"),
    ("torch", "_C._are_functorch_transforms_active", "objectives/autograd.py"),
    ("typer.core", "TyperCommand.format_help", "cli/command.py"),
    ("typer.core", "TyperGroup", "cli/command.py"),
    ("typer.core", "TyperOption.display_type_rich", "cli/command.py"),
    ("typer.core", "TyperArgument.display_type_rich", "cli/command.py"),
    ("sys", "_getframe", "rankers/sklearn.py"),
]
ARGUMENTS = [
    # (module, callable, argument, the file of rankwise that needs it)
    ("lightgbm", "Dataset._set_init_score_by_predictor", "predictor", "rankers/trees/lightgbm/data.py"),
    ("lightgbm", "Booster.eval", "feval", "rankers/trees/lightgbm/model.py"),
    ("torch.nn", "Embedding", "_weight", "wings/recommend/factorization/net.py"),
]


def found(module: str, path: str, where: str) -> object:
    thing: object = pytest.importorskip(module)
    for name in path.split("."):
        assert hasattr(thing, name), f"{module}.{path} is gone, which src/rankwise/{where} relies on"
        thing = getattr(thing, name)
    return thing


@pytest.mark.parametrize(("module", "path", "where"), NAMES, ids=[f"{module}.{path}" for module, path, _ in NAMES])
def test_private_names(module: str, path: str, where: str):
    found(module, path, where)


@pytest.mark.parametrize(("module", "path", "argument", "where"), ARGUMENTS, ids=[one[1] for one in ARGUMENTS])
def test_private_arguments(module: str, path: str, argument: str, where: str):
    parameters = inspect.signature(found(module, path, where)).parameters  # type: ignore[arg-type]
    assert argument in parameters, f"{module}.{path} has no {argument}, which src/rankwise/{where} relies on"


@pytest.mark.parametrize("name", ["_cuda_getDevice", "_cuda_getCurrentRawStream"])
def test_private_names_of_torch_with_cuda(name: str):
    torch = pytest.importorskip("torch")
    if not torch.backends.cuda.is_built():
        pytest.skip("torch without CUDA")
    found("torch", f"_C.{name}", "base/device/launching.py")


FORMATS = {
    "lightgbm": ("LightGBM's text", "lightgbm"),
    "xgboost": ("XGBoost's UBJSON", "xgboost"),
    "catboost": ("CatBoost's FlatBuffer, whose fields are found by number,", "catboost"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_model_files(name: str):
    """Every library's file, numbers and categories in it, is read as the library reads it."""
    pytest.importorskip(name)
    data = rw.synthetic(n_queries=30, n_features=4, n_docs=12, seed=3)
    model = ranker_class(name)("xendcg", rounds=3, leaves=4, min_documents=5, threads=1).fit(data)
    what, module = FORMATS[name]
    sentence = f"{what} has changed: src/rankwise/models/formats/{module}.py reads it"
    try:
        nodes = model.model_.nodes()
    except ValueError as rejected:
        raise AssertionError(f"{sentence}; {rejected}") from None
    assert nodes.roots.size == 3, sentence
    assert np.array_equal(model.scorer()(data.features), model.predict(data.features)), sentence


def test_fields_of_xgboosts_configuration():
    """Names of parameters are those inside ``…_param`` of ``save_config``."""
    pytest.importorskip("xgboost")
    missing = {"max_bin", "rate_drop", "colsample_bynode", "lambdarank_pair_method", "nthread"}.difference(
        XGBoost().known()
    )
    assert not missing, f"XGBoost's configuration has no {missing}, where rankers/trees/xgboost finds them"


def test_json_of_catboosts_trees_that_are_not_symmetric():
    """CatBoost cuts symmetric trees alone; the others are cut in its JSON."""
    catboost = pytest.importorskip("catboost")
    settings = {"iterations": 2, "depth": 2, "grow_policy": "Lossguide", "verbose": 0, "allow_writing_files": False}
    rows = np.random.default_rng(0).normal(size=(60, 2))
    model = catboost.CatBoost(settings).fit(rows, rows[:, 0])
    with tempfile.TemporaryDirectory() as folder:
        model.save_model(f"{folder}/model.json", format="json")
        text = json.loads(Path(folder, "model.json").read_bytes())
    assert len(text.get("trees", ())) == 2, "CatBoost's JSON has no trees, which models/forests/catboost.py cuts"


def test_drawings_of_matplotlib_name_their_colours():
    """Colours of SVG figures are replaced by names of the page's colours."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    with tempfile.TemporaryDirectory() as folder:
        figure, axes = plt.subplots()
        axes.plot([0, 1], color="#123456")
        figure.savefig(f"{folder}/figure.svg")
        plt.close(figure)
        svg = Path(folder, "figure.svg").read_text(encoding="utf-8")
    from rankwise.wings.lab.report import html

    assert "#123456" in {colour for _, colour in html._PAINT.findall(svg)}, "Matplotlib writes colours in another way"
    assert html._HEAD.match(svg), "Matplotlib begins an SVG in another way, which lab/report/html.py cuts off"
