"""Generated lines are those that the repository has."""

from pathlib import Path

import pytest

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
