"""Generated lines are those that the repository has."""

from pathlib import Path

import pytest

from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from tests import generate


def test_the_repository_has_what_is_generated():
    stale = [path.name for path, text in generate.generated().items() if path.read_text("utf-8") != text]
    assert not stale, f"run: {generate.COMMAND}"


def test_only_lines_between_marks_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for path, text in generate.generated().items():
        copy = tmp_path / path.relative_to(generate.ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, "utf-8")
    fields = tmp_path / "src/rankwise/data/dataset.py"
    whole = fields.read_text("utf-8")
    fields.write_text(
        whole.replace("    judged: NDArray[np.int8] | None = None\n", "").replace("is_sparse", "sparse"), "utf-8"
    )
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    generate.main()
    assert fields.read_text("utf-8") == whole.replace("is_sparse", "sparse")
    fields.write_text(whole.replace("fields:end", ""), "utf-8")
    with pytest.raises(ValueError, match="there must be one region from 'fields:begin' to 'fields:end': got 0"):
        generate.main()


def test_stubs_follow_names_and_tables(tmp_path: Path):
    (tmp_path / "objectives").mkdir()
    stub = tmp_path / "objectives" / "__init__.pyi"
    moved = "from rankwise.gone import RankingDataset as RankingDataset\n"
    stub.write_text(f"from . import softmax as softmax\n\nfrom rankwise.data.splits import split as split\n{moved}")
    first, *others, empty, last = generate.stub(stub).splitlines()
    assert first == "from rankwise.data.dataset import RankingDataset as RankingDataset"
    assert others[0] == "from rankwise.data.splits import split as split"
    assert (empty, last) == ("", "from . import softmax as softmax")
    names = {cls.__name__ for cls in {**OBJECTIVES, **WRAPPERS}.values()}
    assert {line.rpartition(" ")[2] for line in others[1:]} == names
    stub.write_text(generate.stub(stub))
    assert generate.stub(stub) == stub.read_text()
    stub.write_text("from rankwise.gone import compare as compare\n")
    with pytest.raises(ValueError, match=r"rankwise.gone does not define compare any more: got \['rankwise.c.*compare"):
        generate.stub(stub)
