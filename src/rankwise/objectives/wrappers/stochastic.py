"""The expected loss under random scores."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from numpy.typing import ArrayLike

from rankwise.base.stream import Stream
from rankwise.check.parameters import Above, AtLeast, OneOf, Search
from rankwise.objectives.cpu import NOISES
from rankwise.objectives.prepared import Prepared, require_stream
from rankwise.objectives.ragged import Derivatives, Values
from rankwise.objectives.wrappers.base import Wrapper

_SHARE = 0.5  # of a loss's own scale: best on the whole among 0.1 to 2 by benchmarks/quality/noise.py


@dataclass(frozen=True, kw_only=True, repr=False)
class stochastic(Wrapper):  # noqa: N801 (wrappers are adjectives)
    """The expected loss under random scores: the mean of the inner loss over perturbed scores s + scale · noise.

    Algorithm 1 of Bruch et al. (2020). The normalisation of the paper's stochastic scores drops out of losses that are
    invariant to a constant added to a query's scores, as all but ``calibrated`` are. First and second derivatives are
    averaged alike; an order, such as LambdaRank's, is taken anew on each sample.

    ``scale`` is that of the noise, in units of the scores. None: half of ``inner.score_scale``, the difference of
    scores that matters to the inner loss (chosen in docs/benchmarks/objectives.md). The paper has 0.25 for trees
    with σ = 2, which is the same, and 1 for nets. ``temperature`` divides noisy scores before the inner loss sees them
    (eq. 4; see :func:`rankwise.objectives.sample_scores`): derivatives are those by the scores themselves.

    >>> from rankwise.objectives import ApproxNDCG, LambdaRank
    >>> stochastic(LambdaRank(sigma=2.0)).noise_scale, stochastic(ApproxNDCG(eta=10.0)).noise_scale
    (0.25, 0.05)
    """

    samples: Annotated[int, AtLeast(1), Search("choice(2, 4, 8)")] = 8
    scale: Annotated[float | None, AtLeast(0), Search("log(0.02, 2.0)")] = None
    noise: Annotated[str, OneOf(NOISES)] = "gumbel"
    temperature: Annotated[float, Above(0)] = 1.0
    name: ClassVar[str] = "stochastic"
    paper: ClassVar[str] = "Bruch et al. 2020"

    @property
    def noise_scale(self) -> float:
        """The scale of the noise: as set, or half of the inner loss's own scale."""
        return float(_SHARE * self.score_scale if self.scale is None else self.scale)

    @property
    def score_scale(self) -> float:
        """The difference of scores that matters to the inner loss, before they are divided by the temperature."""
        return self.inner.score_scale * self.temperature

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the inner objective."""
        inner = self.inner.prepare(labels, offsets, **columns)
        return PreparedStochastic(lists=inner.lists, objective=self, inner=inner)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedStochastic(Prepared):
    """An objective of noisy scores."""

    objective: stochastic
    inner: Prepared

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Average the inner derivatives over samples."""
        wrapper, lists = self.objective, self.lists
        stream = require_stream(stream, wrapper)
        part = lists.outputs_like(out) if wrapper.samples > 1 else out
        samples = lists.noisy(
            scores, stream, wrapper.samples,
            scale=wrapper.noise_scale, temperature=wrapper.temperature, noise=wrapper.noise,
        )  # fmt: skip
        for sample, noisy in enumerate(samples):
            self.inner.fill(noisy, stream.child("sample", sample), part if sample else out)
            if sample:
                lists.add(out, 1.0, part)
        mean, inverse = 1.0 / wrapper.samples, 1.0 / wrapper.temperature
        out.scale(mean, mean * inverse, mean * inverse * inverse)
