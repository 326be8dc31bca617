"""The scripts on the page about rerankers run, one after the other, with a tiny model in place of those of the Hub."""

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("sentence_transformers")

from tests.docs import stand_ins
from tests.docs.commands import ROOT

PAGE = ROOT / "docs" / "rerank.md"
_MODELS = re.compile(r'"(?:microsoft|cross-encoder)/[\w-]+"')


@pytest.mark.filterwarnings("ignore")  # what trainers say of a machine without a GPU
def test_scripts_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("train.jsonl", "valid.jsonl", "test.jsonl", "base"):
        stand_ins.provide((str(tmp_path / name),), tmp_path)
    monkeypatch.chdir(tmp_path)
    for setting, value in {"HF_HUB_OFFLINE": "1", "ACCELERATE_USE_CPU": "true", "RANKWISE_THREADS": "1"}.items():
        monkeypatch.setenv(setting, value)
    scripts = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"))
    assert len(scripts) == 4
    small = [_MODELS.sub('"./base"', script) for script in scripts]
    assert all(map(str.__ne__, small, scripts))
    (tmp_path / "page.py").write_text("".join(small), encoding="utf-8")
    runpy.run_path("page.py")
    assert (tmp_path / "model" / "README.md").is_file()
    assert "### test" in (tmp_path / "reranker" / "README.md").read_text(encoding="utf-8")
