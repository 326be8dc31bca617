"""What all tests share: no touching of the user's own cache folder, and examples without a clock."""

import pytest
from hypothesis import settings

import rankwise as rw

# The first example of a property compiles kernels, so examples have no deadline.
settings.register_profile("rankwise", deadline=None, max_examples=50)
settings.load_profile("rankwise")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANKWISE_CACHE", raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


# A small set that rankers learn from in moments, and its two parts.


@pytest.fixture(scope="session")
def whole():
    return rw.synthetic(n_queries=65, n_features=12, n_docs=20, seed=3)


@pytest.fixture(scope="session")
def data(whole):
    return whole.take(slice(0, 40))


@pytest.fixture(scope="session")
def valid(whole):
    return whole.take(slice(40, 65))
