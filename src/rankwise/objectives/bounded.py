"""Bounding: every list's metric brought to a scale of its own, by what its orderings can reach (Westerborg 2022)."""

import hashlib
import os
import zipfile
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.files import replacing
from rankwise.metrics.permutations import DISCORDANCE, LINEAR, Distribution, Orderings, distribution, quantiles
from rankwise.objectives.base import Array, Derivatives, Lists, Operators, algebra, lists
from rankwise.objectives.fastmath import sigmoid
from rankwise.objectives.wrappers import check_inner, stochastic, times_lists, weighted
from rankwise.stream import Stream
from rankwise.threads import over_queries

_METHODS = ("min_max", "expectation", "expectation_max", "distribution")
_GAINS = ("capped", "thesis")
_CACHE_VERSION = 1
_LEAST_SLOPE = 0.05  # of the distribution function at the best ordering, as a share of its mean slope


@algebra
@dataclass(frozen=True, repr=False)
class bounded(Operators):  # noqa: N801 (wrappers are adjectives)
    """A smooth metric relative to what the list allows: its difficulty is taken out (thesis, chapter 3).

    With the metric's least, mean and largest value over all orderings of the list, ``method`` maps M to

    - ``"min_max"``: (M − least)/(most − least), eq. 3.1;
    - ``"expectation"``: M/mean, eq. 3.6;
    - ``"expectation_max"``: (M − mean)/(most − mean), eq. 3.11;
    - ``"distribution"``: the share of orderings that do no better, smoothed by sigmoids, eq. 3.12 and algorithm 2.

    NDCG and AP are bounded as metrics and then negated, RBP as the loss that it is. Every map rises, so the gradient of
    a list is a positive multiple of the inner one. A list whose orderings are all worth the same gives zeros. Graded
    labels need nothing special: the extremes sort the gains, the mean is eq. 3.5, the distribution shuffles them.

    The distribution of RBP is exact; those of NDCG and AP are exact for up to ``orderings`` different orderings and
    drawn from that many otherwise. They are computed once for each kind of list and kept in the user's cache folder.
    ``gain="thesis"`` takes the sigmoid's gain from eq. 3.13, under which the function is flat above the best ordering
    drawn; ``"capped"`` lowers it until the slope at the ideal ordering is a twentieth of the mean slope. Under
    ``"thesis"`` the Hessian leaves out the map's own second derivative, which such a gain makes enormous.
    """

    inner: Any
    method: str = field(default="min_max", kw_only=True)
    gain: str = field(default="capped", kw_only=True)
    orderings: int = field(default=300_000, kw_only=True)
    paper: ClassVar[str] = "Westerborg 2022"

    def __post_init__(self) -> None:
        check_inner(self.inner, "bounded")
        check.choice("method of bounding", self.method, _METHODS)
        check.choice("gain of the smoothed distribution", self.gain, _GAINS)
        check.integer("orderings", self.orderings, least=1)
        if not hasattr(metric_inside(self.inner), "orderings"):
            raise check.error(
                "only a metric can be bounded",
                got=repr(self.inner),
                cure="use approx_ndcg, smooth_ap, smooth_rbp or plrank, also inside stochastic or weighted",
            )

    @property
    def exact_hessian(self) -> bool:
        """As exact as the inner one, except under the thesis's gain."""
        whole = self.method != "distribution" or self.gain != "thesis"
        return whole and bool(getattr(self.inner, "exact_hessian", False))

    @property
    def estimator(self) -> bool:
        """An estimator if the inner one is."""
        return bool(getattr(self.inner, "estimator", False))

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Apply the map to each list: g' = φ'·g and h' = φ'·h + φ''·g²."""
        if "document_rewards" in documents:
            raise check.error(f"{self} cannot bound document_rewards", cure="bound what the labels are worth instead")
        given = lists(scores, labels, offsets)
        part = self.inner(*given, None if stream is None else stream.child(0), **documents)
        plan = self._plan(given)
        value, slope, bend = plan.apply(part.value)
        if self.gain == "thesis":
            bend[:] = 0.0
        gradient = times_lists(slope, part.gradient, given.offsets)
        hessian = times_lists(slope, part.hessian, given.offsets)
        if bend.any():
            hessian += times_lists(bend, part.gradient**2, given.offsets)
        return Derivatives(value, gradient, hessian, gradient)

    def mapped(self, values: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Array:
        """Give what bounding makes of a loss of each list: the map alone, for looking at it.

        >>> from rankwise.objectives.smooth import SmoothRBP
        >>> bounded(SmoothRBP()).mapped([0.0, 1.0, 2.0], [1, 0, 0] * 3, [0, 3, 6, 9])  # at most 2 pairs are wrong
        array([0. , 0.5, 1. ])
        """
        given = lists(np.zeros(len(labels)), labels, offsets)  # type: ignore[arg-type]
        return self._plan(given).apply(np.asarray(values, np.float64))[0]

    def _plan(self, given: Lists) -> "_Plan":
        """What depends on the labels alone; the same labels come round after round."""
        digest = hashlib.blake2b(given.labels.tobytes(), digest_size=16)
        digest.update(given.offsets.tobytes())
        return _remembered(self, _Once(digest.hexdigest(), given))


class _Once:
    """Lists that are known by the digest of their labels."""

    def __init__(self, digest: str, given: Lists) -> None:
        self.digest, self.given = digest, given

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once) and other.digest == self.digest


class _Plan(NamedTuple):
    """The map of each list, in units of its weight; ``scale`` is 0 where there is nothing to learn."""

    sign: float
    scale: Array
    shift: Array
    slope: Array
    tables: "_Tables | None"

    def apply(self, values: Array) -> tuple[Array, Array, Array]:
        """Give the bounded value and its first and second derivative with respect to the inner value."""
        metric = self.sign * values * self.scale
        if self.tables is None:
            first, second = self.slope.copy(), np.zeros_like(metric)
            mapped = self.slope * (metric - self.shift)
        else:
            mapped, first, second = np.empty_like(metric), np.empty_like(metric), np.empty_like(metric)
            over_queries(_smooth_share, np.arange(metric.size + 1), metric, *self.tables, mapped, first, second)
        alive = self.scale > 0.0
        return (
            np.where(alive, self.sign * mapped, 0.0),
            np.where(alive, first * self.scale, 0.0),
            np.where(alive, self.sign * second * self.scale**2, 0.0),
        )


class _Tables(NamedTuple):
    """Distributions one after another, and which of them each list has."""

    which: NDArray[np.int64]
    starts: NDArray[np.int64]
    values: Array
    chances: Array
    gains: Array


def metric_inside(objective: Any) -> Any:
    """What wrappers that keep a metric a metric are around."""
    while isinstance(objective, stochastic | weighted):
        objective = objective.inner
    return objective


@lru_cache(maxsize=8)
def _remembered(wrapper: bounded, once: _Once) -> _Plan:
    given = once.given
    weights, layer = np.ones(given.n_queries), wrapper.inner
    while isinstance(layer, stochastic | weighted):
        if isinstance(layer, weighted):
            weights = weights * layer.weights(given)
        layer = layer.inner
    seen: Orderings = layer.orderings(given.labels, given.offsets)
    least, mean, most = seen.extremes()
    alive = (most - least > 1e-12) & (weights > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(alive, 1.0 / weights, 0.0)
        shift, span = {
            "min_max": (least, most - least),
            "expectation": (np.zeros_like(mean), mean),
            "expectation_max": (mean, most - mean),
            "distribution": (least, most - least),
        }[wrapper.method]
        slope = np.where(alive, 1.0 / span, 0.0)
    sign = 1.0 if seen.kind == DISCORDANCE else -1.0
    tables = _tables(wrapper, seen, alive, least, most, sign) if wrapper.method == "distribution" else None
    return _Plan(sign, scale, np.where(alive, shift, 0.0), slope, tables)


def _tables(
    wrapper: bounded, seen: Orderings, alive: NDArray[np.bool_], least: Array, most: Array, sign: float
) -> _Tables:
    known: dict[bytes, int] = {}
    found: list[Distribution] = []
    gains: list[float] = []
    which = np.zeros(alive.size, np.int64)
    for q in np.flatnonzero(alive).tolist():
        worths = np.sort(seen.worths[seen.offsets[q] : seen.offsets[q + 1]])
        key = worths.tobytes()
        if key not in known:
            known[key] = len(found)
            thetas = seen.thetas[: worths.size].tobytes() if seen.kind == LINEAR else b""
            best = least[q] if sign > 0.0 else most[q]
            span = most[q] - least[q]
            one, gain = _smoothed(seen.kind, key, thetas, wrapper.orderings, float(best), float(span), wrapper.gain)
            found.append(one)
            gains.append(gain)
        which[q] = known[key]
    if not found:
        found, gains = [Distribution(np.zeros(1), np.ones(1), 1, True)], [1.0]
    starts = np.concatenate(([0], np.cumsum([d.values.size for d in found])))
    values, chances = (np.concatenate([getattr(d, name) for d in found]) for name in ("values", "chances"))
    return _Tables(which, starts, values, chances, np.array(gains))


@lru_cache(maxsize=1024)
def _smoothed(
    kind: str, worths: bytes, thetas: bytes, orderings: int, best: float, span: float, rule: str
) -> tuple[Distribution, float]:
    """A distribution and its gain; batches are made of other lists every time, but of lists of the same kinds."""
    found = _kept(kind, np.frombuffer(worths).copy(), np.frombuffer(thetas).copy(), orderings)
    return found, sigmoid_gain(found, best, span, rule)


def sigmoid_gain(given: Distribution, best: float, span: float, rule: str) -> float:
    """The steepness of the sigmoids that smooth a distribution function: eq. 3.13, or less where that is too steep."""
    reach = given.values[-1] - given.values[0]
    gain = given.different / (reach if reach > 0.0 else 1.0)
    if rule == "thesis":
        return gain
    mapped, first, second = np.empty(1), np.empty(1), np.empty(1)
    while gain > 1.0 / span:
        tables = (
            np.zeros(1, np.int64),
            np.array([0, given.values.size]),
            given.values,
            given.chances,
            np.array([gain]),
        )
        _smooth_share(0, 1, np.arange(2), np.array([best]), *tables, mapped, first, second)
        if first[0] >= _LEAST_SLOPE / span:
            break
        gain *= 0.9
    return gain


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _smooth_share(first, last, _, metric, which, starts, values, chances, gains, share, slope, bend):  # type: ignore[no-untyped-def]
    """Algorithm 2: Σ chance · σ(a(M − value)), with its first and second derivative."""
    for q in range(first, last):
        own = slice(starts[which[q]], starts[which[q] + 1])
        x, p, a = values[own], chances[own], gains[which[q]]
        total, first_sum, second_sum = 0.0, 0.0, 0.0
        for k in range(x.size):
            s = sigmoid(a * (metric[q] - x[k]))
            w = p[k] * s * (1.0 - s)
            total += p[k] * s
            first_sum += w
            second_sum += w * (1.0 - 2.0 * s)
        # Where every sigmoid is 0 or 1 to the last digit, a floor keeps the map rising.
        share[q], slope[q], bend[q] = total, max(a * first_sum, 1e-300), a * a * second_sum


def _kept(kind: str, worths: Array, thetas: Array, orderings: int) -> Distribution:
    """Read a distribution from the user's cache, or compute it and keep it there."""
    name = hashlib.blake2b(f"{kind}/{orderings}/{worths.size}".encode(), digest_size=16)
    name.update(worths.tobytes())
    name.update(thetas.tobytes())
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankwise"
    path = home / f"distributions-{_CACHE_VERSION}" / f"{name.hexdigest()}.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return Distribution(kept["values"], kept["chances"], int(kept["different"]), bool(kept["exact"]))
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        pass  # absent, or damaged: computed anew
    found = quantiles(distribution(kind, worths, thetas, orderings=orderings))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, force=True) as new, new.open("xb") as fresh:
            np.savez(fresh, **found._asdict())
    except OSError:
        pass  # a folder that cannot be written only costs time
    return found
