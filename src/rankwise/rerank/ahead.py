"""Making the next thing while the last one is used: a GPU need not wait for the tokenizer."""

import contextvars
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Key = TypeVar("Key")
Made = TypeVar("Made")


def ahead(make: Callable[[Key], Made], keys: Iterable[Key]) -> Generator[Made, None, None]:
    """Give ``make(key)`` of each key, in their order, of which the next is being made in a thread of its own.

    What it raises is raised where that thing is asked for.

    >>> list(ahead(str.upper, "abc"))
    ['A', 'B', 'C']
    """
    settings = contextvars.copy_context()  # such as how many threads kernels use
    with ThreadPoolExecutor(1) as thread:
        coming: Future[Made] | None = None
        for key in keys:
            last, coming = coming, thread.submit(settings.run, make, key)
            if last is not None:
                yield last.result()
        if coming is not None:
            yield coming.result()
