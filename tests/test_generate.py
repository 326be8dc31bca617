"""Generated lines are those that the repository has."""

from pathlib import Path

import pytest

from tests.generate import COMMAND, ROOT, generated


@pytest.mark.parametrize(("path", "text"), [pytest.param(*one, id=one[0].name) for one in generated().items()])
def test_the_repository_has_what_is_generated(path: Path, text: str):
    assert path.read_text("utf-8") == text, f"{path.relative_to(ROOT)} is not what its tables say: run {COMMAND}"
