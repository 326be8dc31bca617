"""The error sentences that no other folder tests: what, got, where, hint."""

import copy
import pickle
from pathlib import Path

import pytest

from rankwise import check
from tests.refusals import refusal, refuses


def test_parts_of_an_error_are_optional():
    assert str(check.error("something is wrong")) == "something is wrong."
    assert str(check.error("wrong", got=3)) == "wrong: got 3."
    assert str(check.error("wrong", where="line 2")) == "wrong: line 2."
    assert str(check.error("wrong", got=3, where="line 2", hint="mend it")) == "wrong: got 3 at line 2. Hint: mend it."


def test_fields_of_an_error_survive_copies_and_processes():
    error = check.error("wrong", got=3, where=check.Row(2, " (query 'a')"), hint="`set a=1`")
    for one in (error, copy.deepcopy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert isinstance(one, check.InputError)
        assert (one.what, one.got, one.where, one.hint) == ("wrong", "3", "row 2 (query 'a')", "set a=1")
        assert one.message.hint == "`set a=1`"
        assert str(one) == "wrong: got 3 at row 2 (query 'a'). Hint: set a=1."
    empty = check.error("wrong")
    assert (empty.got, empty.where, empty.about, empty.hint) == (None, "", "", "")


def test_other_errors_and_warnings_have_the_same_fields():
    error = pickle.loads(pickle.dumps(check.unexpected("fit", "eval_set", "pass `valid=`")))  # noqa: S301
    assert isinstance(error, TypeError)
    assert str(error) == "fit has no argument 'eval_set'. Hint: pass valid=."
    assert check.Message.of(error).hint == "pass `valid=`"
    with pytest.warns(RuntimeWarning, match=r"^slow\. Hint: set threads=1\.$") as caught:
        check.warn("slow", hint="`set threads=1`", category=RuntimeWarning)
    assert check.Message.of(vars(caught[0])["message"]).hint == "`set threads=1`"
    assert caught[0].filename == __file__
    assert str(check.Message.of(KeyError("a", 1))) == "('a', 1)"


@pytest.mark.parametrize(
    "fields",
    [
        {"what": "wrong"},
        {"what": "wrong…", "got": "3"},
        {"what": "wrong number", "got": "…3"},
        {"what": "wrong number", "where": "…line"},
        {"hint": "mend"},
        {"about": "…a"},
    ],
)
def test_refusals_with_other_fields_are_noticed(fields):
    def call() -> None:
        raise check.error("wrong number", got="31", where="line 2", hint="mend it")

    refuses(call, what="wrong number", got="3…", where="…2", hint="mend it", about="")
    with pytest.raises(AssertionError, match="expected"):
        refuses(call, **fields)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        refuses(int, what="wrong number")
    with pytest.raises(ValueError, match="invalid literal"):  # of Python, not ours
        refuses(lambda: int("x"), what="invalid literal…")


def test_control_characters_are_escaped():
    wild = "\x1b]0;title\x07\x9b2J a\r\nb\u202eevil\u2066 \u2028 \x7f \udcff \u200b"
    text = str(check.error(f"wrong {wild}", got=wild, where=wild, hint=wild))
    assert text.isprintable()
    assert text.count(r"\x1b]0;title\x07\x9b2J a\r\nb\u202eevil\u2066 \u2028 \x7f \udcff \u200b") == 4
    assert check.printable("naïve 検索 “Ω”\xa0𝔮 é") == "naïve 検索 “Ω”\xa0𝔮 é"


def test_marked_arguments_of_a_hint_survive_places_rows_and_processes():
    def option(name: str, value: str | None) -> str | None:
        return f"--{name} {value}" if value else None

    error = check.error("wrong", where=check.Row(3), got=1, hint="`set a='`b|c'`, lower `d`, or ask` (rw.trec.join)|`")
    with (
        refusal(check.InputError, where="line 3") as raised,
        check.naming("a.txt"),
        check.placing("line {}".format),
    ):
        raise copy.deepcopy(error)
    assert str(raised.value) == "a.txt: wrong: got 1 at line 3. Hint: set a='`b|c', lower d, or ask (rw.trec.join)."
    message = raised.value.message.rewritten(option, "use", lambda words: not words)
    assert str(message) == "a.txt: wrong: got 1 at line 3. Hint: use --a '`b|c', lower d, or ask."


def test_an_error_names_its_file_once():
    with refusal(about="rows.txt", what="wrong"), check.naming(Path("rows.txt")):
        raise check.error("wrong")
    with refusal(what="wrong", where="rows.txt, line 3"), check.naming("rows.txt"):
        raise check.error("wrong", where="rows.txt, line 3")
    with refusal(check.InputError, about="b: a", what="wrong") as told, check.naming("b"), check.naming("a"):
        raise check.error("wrong")
    assert told.value.about == "b: a"
    with refusal(about="model", what="the model is wrong"), check.naming("model"):
        raise check.error("the model is wrong")
    with refusal(about="rows.txt", what="'utf-8' codec…") as caught, check.naming("rows.txt"):
        b"\xff".decode()
    assert type(caught.value) is check.InputError


def test_choice_suggests():
    assert check.choice("noise", "gumbel", ["gumbel", "logistic"]) == "gumbel"
    with refusal(what="unknown noise", got="'gumble'", hint="did you mean 'gumbel'"):
        check.choice("noise", "gumble", ["gumbel", "logistic"])
    with refusal(what="unknown noise", got="7", hint="choose one of gumbel, logistic"):
        check.choice("noise", 7, ["gumbel", "logistic"])


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None])
def test_integers(value):
    refuses(lambda: check.integer("samples", value, least=1), what="samples must be a whole number of at least 1")


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan"), "half", True])
def test_numbers_inside_open_ends(value):
    refuses(lambda: check.number("p", value, least=0, most=1, open_ends=True), what="p must be a number in (0, 1)")


def test_numbers_with_their_ends():
    assert check.number("p", 1, least=0, most=1) == 1.0
    refuses(lambda: check.number("p", 1.1, least=0, most=1), what="p must be a number in [0, 1]", got="1.1")


def test_paths(tmp_path):
    taken = tmp_path / "scores.txt"
    assert check.free_path(taken) == taken
    taken.write_text("1")
    with refusal(FileExistsError, what="…scores.txt exists already and is kept", hint="choose another name…"):
        check.free_path(taken)
    assert check.free_path(taken, force=True) == taken
    assert check.readable(taken) == taken
    with pytest.raises(FileNotFoundError, match=r"there is no file .*score\.txt\. Did you mean .*scores\.txt\?"):
        check.readable(tmp_path / "score.txt")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing/at/all\.$"):
        check.readable(tmp_path / "nothing/at/all")


def test_proportions():
    assert check.fractions((0.6, 0.4)) == (0.6, 0.4)
    refuses(lambda: check.fractions((0.6, 0.3)), what="the proportions of a split must add up to 1", got="(0.6, 0.3)…")


def test_an_error_is_represented_by_its_sentence():
    assert repr(check.error("wrong", got=3)) == "InputError('wrong: got 3.')"
