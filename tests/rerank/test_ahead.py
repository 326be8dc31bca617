"""What is made ahead comes in its order, one thing ahead, and fails where it is asked for."""

import threading

import pytest

from rankwise.rerank.ahead import ahead
from rankwise.threads import thread_count, use_threads


def test_the_next_is_made_while_one_is_used():
    second = threading.Event()

    def make(number):
        if number == 1:
            second.set()
        return number, threading.current_thread() is threading.main_thread()

    for number, in_main in ahead(make, range(3)):
        assert second.wait(60)  # before the first is done with
        assert not in_main
        last = number
    assert last == 2


def test_settings_hold_there_too():
    with use_threads(3):
        assert list(ahead(lambda _: thread_count(), range(2))) == [3, 3]


def test_an_error_is_raised_in_its_turn():
    def make(number):
        if number == 1:
            raise ValueError("broken")
        return number

    coming = ahead(make, range(3))
    assert next(coming) == 0
    with pytest.raises(ValueError, match="broken"):
        next(coming)


def test_nothing_is_made_of_nothing():
    assert list(ahead(str, [])) == []
