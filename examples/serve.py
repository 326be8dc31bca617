"""A trained model in service: `rankwise serve` in another process, asked over HTTP, and an ONNX file for others.

POST /score with {"documents": [{"feature": value, …}, …]} answers {"scores": […], "ranks": […]}: see docs/serving.md.
"""

import json
import subprocess
import sys
import urllib.request

import numpy as np

import rankwise as rw

data = rw.synthetic(n_queries=200, n_features=10, seed=1)
data = data.with_(feature_names=[f"feature_{number}" for number in range(10)])
train, test = rw.split(data, (0.7, 0.3), seed=0)
model = rw.LightGBMRanker("lambdarank", rounds=50, leaves=15, threads=1).fit(train)
model.save("ranker.rw", force=True)
rw.export(model, "ranker.onnx", format="onnx", force=True)  # for services that are not written in Python

command = [sys.executable, "-m", "rankwise", "serve", "ranker.rw", "--port", "0"]  # 0: a free port
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
    address = service.stdout.readline().split()[-1]  # serving ranker (production) at http://127.0.0.1:…
    documents = test.features[test.offsets[0] : test.offsets[1]]
    body = {"features": data.feature_names, "rows": documents.tolist()}
    with urllib.request.urlopen(f"{address}/score", json.dumps(body).encode()) as response:
        served = json.load(response)
    service.terminate()  # requests in flight are finished

print("scores are those of predict:", served["scores"] == model.predict(documents).tolist())
print("best documents of the first query:", np.argsort(served["ranks"])[:5].tolist())
print("as the model ranks them:          ", np.argsort(-model.predict(documents), kind="stable")[:5].tolist())
