"""A trained model in service: a small HTTP server that ranks the documents of a query, and an ONNX file for others.

python examples/serve.py            train, export, serve one request and stop
python examples/serve.py 8000       serve on that port until interrupted

POST /rank with {"documents": [[…features…], …]} answers {"ranking": [best document's number, …], "scores": […]}.
"""

import json
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import rankwise as rw

train, test = rw.split(rw.synthetic(n_queries=200, n_features=10, seed=1), (0.7, 0.3), seed=0)
rw.LightGBMRanker("lambdarank", rounds=50, leaves=15, threads=1).fit(train).save("ranker.rw", force=True)

model = rw.load("ranker.rw")  # loading a model runs no code of the file
rw.export(model, "ranker.onnx", format="onnx", force=True)  # for services that are not written in Python
scorer = model.scorer()  # the same scores, several times as fast; safe to call from many threads


class Ranking(BaseHTTPRequestHandler):
    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            scores = scorer(np.array(body["documents"], np.float32))
            answer, status = {"ranking": np.argsort(-scores, kind="stable").tolist(), "scores": scores.tolist()}, 200
        except (ValueError, KeyError, TypeError) as problem:  # what is wrong with the documents, in a sentence
            answer, status = {"error": str(problem)}, 400
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Ranking)
if len(sys.argv) > 1:
    print(f"serving at http://127.0.0.1:{server.server_port}/rank")
    server.serve_forever()

threading.Thread(target=server.serve_forever, daemon=True).start()
documents = test.features[test.offsets[0] : test.offsets[1]]
request = urllib.request.Request(
    f"http://127.0.0.1:{server.server_port}/rank", json.dumps({"documents": documents.tolist()}).encode()
)
with urllib.request.urlopen(request) as response:
    served = json.load(response)
server.shutdown()
server.server_close()
print("best documents of the first query:", served["ranking"][:5])
print("as the model ranks them:          ", np.argsort(-model.predict(documents), kind="stable")[:5].tolist())
