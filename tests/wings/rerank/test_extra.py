"""Without the extra, lists of texts are read all the same, and all else says what to install."""

import subprocess
import sys

import pytest

from tests.processes import environment

PROGRAM = """
import sys
sys.modules[{missing!r}] = None
import rankwise as rw
assert "torch" not in sys.modules or sys.modules["torch"] is None
rw.rerank.Lists(["a"], ["b"], [1], [0, 1])
try:
    rw.rerank.{name}{call}
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "call", "missing"),
    [("Loss", "", "torch"), ("two_passes", "", "torch"), ("Reranker", "('none').predict([])", "sentence_transformers")],
)
def test_a_missing_package_is_named_with_its_extra(name, call, missing):
    program = PROGRAM.format(name=name, call=call, missing=missing)
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{missing} is not installed. Install it with: pip install 'rankwise[rerank]'"
