"""Curves of position bias: lookups, files, what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.clicks.positions.bias import Bias
from tests.refusals import refusal, refuses


@pytest.fixture
def bias():
    common = Bias.known([1.0, 0.5, 0.25], [0.0, 0.02, 0.01])
    curves = np.array([[1.0, 0.6, 0.3], [1.0, 0.4, 0.2]])
    low = np.array([1.0, 0.4, np.nan])
    pbm = Bias.known([1.0, 0.55, 0.3])
    return replace(common, alpha_low=low, segment_names=("desktop", "phone"), by_segment=curves, pbm=pbm)


def test_positions_beyond_the_last_have_no_bias(bias):
    alpha, beta = bias.of(np.array([3, 1, 4, 900]))
    np.testing.assert_array_equal(alpha, [0.25, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(beta, [0.01, 0.0, 0.0, 0.0])
    refuses(lambda: bias.of(np.array([1, 0])), what="positions count from 1", got="0")


def test_segments_have_their_curves_and_new_ones_the_common_one(bias):
    alpha, beta = bias.of(np.array([2, 2, 2, 5]), np.array([0, 1, -1, 0]))
    np.testing.assert_array_equal(alpha, [0.6, 0.4, 0.5, 0.0])
    np.testing.assert_array_equal(beta, [0.02, 0.02, 0.02, 0.0])
    np.testing.assert_array_equal(Bias.known([1.0, 0.5]).of(np.array([2]), np.array([0]))[0], [0.5])


def test_a_file_holds_everything(bias, tmp_path):
    path = bias.save(tmp_path / "bias.json")
    again = rw.clicks.read_bias(path)
    assert again.to_frame().equals(bias.to_frame(), null_equal=True)
    np.testing.assert_array_equal(again.by_segment, bias.by_segment)
    assert again.pbm is not None
    np.testing.assert_array_equal(again.pbm.alpha, bias.pbm.alpha)
    assert (again.method, again.assumptions, again.segment_names, again.level) == (
        bias.method,
        bias.assumptions,
        bias.segment_names,
        bias.level,
    )
    with pytest.raises(FileExistsError):
        bias.save(path)


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"format": "another"}, {"what": "a position bias has the format 'rankwise position bias 1'"}),
        ({"alpha": [1.0, "x", 0.2]}, {"what": "alpha must be numbers, one per position"}),
        ({"alpha": [1.0, None, 0.2]}, {"what": "alpha must be finite and at least 0, beta finite"}),
        ({"alpha": [1.0]}, {"what": "curves of a bias need one number per position each"}),
        ({"alpha": [1.0, -0.5, 0.2]}, {"what": "alpha must be finite and at least 0, beta finite"}),
        ({"by_segment": [[1.0, 0.5]]}, {"what": "by_segment…"}),
        ({"by_segment": [[1.0, 0.5, 0.2], [1.0]]}, {"what": "by_segment…"}),
        ({"more": 1}, {"what": "…fields…", "got": "…more…"}),
        ({"method": 3}, {"what": "method must be text"}),
        ({"level": 2.0}, {"what": "level must be a number in (0, 1)"}),
        ({"assumptions": "none"}, {"what": "assumptions must be text"}),
        ({"pbm": 3}, {"what": "…fields…", "got": "3"}),
    ],
)
def test_a_damaged_file_is_refused_by_name(bias, tmp_path, change, fields):
    path = bias.save(tmp_path / "bias.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with refusal(**fields) as raised:
        rw.clicks.read_bias(path)
    assert "bias.json" in str(raised.value)


def test_it_prints_a_page(bias):
    page = str(bias)
    for text in ("position", "0.2500", "without trust", "alpha of phone", "[0.4000, 0.5000]", "known from elsewhere"):
        assert text in page


@pytest.mark.parametrize("alpha", [[], "steep", [[1.0]], [1.0, np.nan], [1.0, -0.1]])
def test_curves_that_are_none_are_refused(alpha):
    with pytest.raises(ValueError, match="alpha"):
        Bias.known(alpha)
