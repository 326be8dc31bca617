"""The expected loss under random scores."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, read_only, reusable
from rankwise.objectives.adapted import as_objective
from rankwise.objectives.base import Derivatives, Objective, Prepared, add, drawing
from rankwise.objectives.wrappers.stochastic_scores import check_noise, perturb
from rankwise.plain import Keywords
from rankwise.stream import Stream

_SHARE = 0.5  # of a loss's own scale: best on the whole among 0.1 to 2 by benchmarks/noise.py


@dataclass(frozen=True, repr=False)
class stochastic(Objective):  # noqa: N801 (wrappers are adjectives)
    """The expected loss under random scores: the mean of the inner loss over perturbed scores s + scale · noise.

    Algorithm 1 of Bruch et al. (2020). Every loss here is blind to a constant added to a query's scores, so the
    normalisation of the paper's stochastic scores drops out. First and second derivatives are averaged alike; an
    order, such as LambdaRank's, is taken anew on each sample.

    ``scale`` is that of the noise, in units of the scores. None: half of ``inner.score_scale``, the difference of
    scores that matters to the inner loss (docs/objectives.md says how that was chosen). The paper has 0.25 for trees
    with σ = 2, which is the same, and 1 for nets. ``temperature`` divides noisy scores before the inner loss sees them
    (eq. 4; see :func:`rankwise.sample_scores`): derivatives are those by the scores themselves.

    >>> from rankwise import ApproxNDCG, LambdaRank
    >>> stochastic(LambdaRank(sigma=2.0)).noise_scale, stochastic(ApproxNDCG(eta=10.0)).noise_scale
    (0.25, 0.05)
    """

    inner: Objective
    samples: int = field(default=8, kw_only=True)
    scale: float | None = field(default=None, kw_only=True)
    noise: str = field(default="gumbel", kw_only=True)
    temperature: float = field(default=1.0, kw_only=True)
    name: ClassVar[str] = "stochastic"
    paper: ClassVar[str] = "Bruch et al. 2020"

    def __post_init__(self) -> None:
        check.integer("samples", self.samples, least=1)
        check_noise(0.0 if self.scale is None else self.scale, self.noise)
        check.number("temperature", self.temperature, least=0.0, open_ends=True)
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))

    @property
    def inside(self) -> tuple[Objective, ...]:
        """The inner objective."""
        return (self.inner,)

    @property
    def noise_scale(self) -> float:
        """The scale of the noise: as set, or half of the inner loss's own scale."""
        return float(_SHARE * self.score_scale if self.scale is None else self.scale)

    @property
    def score_scale(self) -> float:
        """The difference of scores that matters to the inner loss, before they are divided by the temperature."""
        return self.inner.score_scale * self.temperature

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Prepare the inner objective."""
        return PreparedStochastic(self, self.inner.prepare(labels, offsets, **documents))


class PreparedStochastic(Prepared):
    """What sees the noisy scores, prepared."""

    def __init__(self, objective: stochastic, inner: Prepared) -> None:
        self.objective, self.inner, self.offsets = objective, inner, inner.offsets

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Average the inner derivatives over samples."""
        wrapper = self.objective
        stream = drawing(stream, wrapper)
        noisy = reusable(scores.size)
        settings: Keywords = {"scale": wrapper.noise_scale, "temperature": wrapper.temperature, "noise": wrapper.noise}
        total: Derivatives | None = None
        for sample in range(wrapper.samples):
            perturb(scores, self.offsets, stream, sample, noisy, **settings)
            part = self.inner.differentiate(read_only(noisy), stream.child("sample", sample), hessian)
            total = add(total, 1.0, part)
        if total is None:
            raise check.error("stochastic needs at least one sample")
        mean, inverse = 1.0 / wrapper.samples, 1.0 / wrapper.temperature
        factors = (mean, mean * inverse, mean * inverse * inverse, mean * inverse)  # once, and not every sample's
        for sum_, factor in zip(total if total.numerator is not total.gradient else total[:3], factors, strict=False):
            sum_ *= factor
        return total

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries of the inner objective."""
        return PreparedStochastic(self.objective, self.inner.take(queries))
