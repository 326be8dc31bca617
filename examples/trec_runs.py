"""TREC runs compared for a paper: trec_eval's numbers, paired tests, a LaTeX table and a figure.

python examples/trec_runs.py                          on two runs by BM25, made here
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
    *_, data = rw.load_dataset("numpy-scipy")  # the test queries of their documentation
    fields = ("name", "module", "summary", "text")
    systems = {"bm25": ["score(bm25)"], "fields": [f"bm25({field})" for field in fields]}
    qrels, runs = "qrels.txt", [f"{name}.txt" for name in systems]
    rw.trec.write_qrels(data, qrels, force=True)
    for name, features in systems.items():
        columns = [(data.feature_names or ()).index(one) for one in features]
        scores = np.asarray(data.features)[:, columns].sum(1)
        rw.trec.write_run(scores, data, f"{name}.txt", tag=name, force=True)

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
