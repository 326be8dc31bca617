"""TREC runs compared for a paper: trec_eval's numbers, paired tests, a LaTeX table and a figure.

python examples/trec_runs.py                          on two runs made here
python examples/trec_runs.py QRELS RUN RUN …          on files of your own, the first run being the baseline

The same without Python: rankwise compare --qrels QRELS RUN RUN --metrics AP,nDCG@20,P@10 --format latex
"""

import sys
from pathlib import Path

import numpy as np

import rankwise as rw

if len(sys.argv) > 1:
    qrels, *runs = sys.argv[1:]
else:
    data = rw.synthetic(n_queries=50, n_features=5, n_docs=60, seed=1)
    draw = np.random.default_rng(0)
    qrels, runs = "qrels.txt", ["bm25.txt", "rerank.txt"]
    rw.trec.write_qrels(data, qrels, force=True)
    for run, noise in zip(runs, (2.0, 1.0), strict=True):
        scores = data.labels + noise * draw.normal(size=data.n_docs)
        rw.trec.write_run(scores, data, run, tag=Path(run).stem, force=True)

metrics = [rw.metric(name, conventions="trec_eval") for name in ("AP", "nDCG@20", "P@10")]
evaluations = {}
for run in runs:
    scores, judged = rw.trec.join(
        run, qrels, all_topics=True
    )  # topics without a document count too, as trec_eval -c does
    evaluations[Path(run).stem] = rw.evaluate(scores, judged, metrics)

comparison = rw.compare(evaluations, baseline=Path(runs[0]).stem)
print(comparison)
print(comparison.to_latex(titles=["MAP", "nDCG@20", "P@10"]))
comparison.plot("differences.png", force=True)
