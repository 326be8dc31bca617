"""Hybrid search in Postgres: words and vectors in one query, and a ranker over both, in forty lines.

python examples/hybrid_postgres.py [CONNECTION]

Without a connection string, such as "host=db dbname=shop user=me", pgserver starts a server with pgvector. Needs
pip install 'rankwise[engines]' pgserver wordllama. The texts are the documentation of NumPy and SciPy.
"""

import pathlib
import sys
import tempfile

import wordllama

import rankwise as rw


def main(server):
    texts = rw.text.numpy_scipy()
    pages = rw.text.Documents(texts.documents, fields=("name", "module", "summary"))
    queries = dict(list(texts.queries.items())[::5])
    folder = pathlib.Path(wordllama.__file__).parent  # vectors that come with the package
    model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)

    rw.text.engines.Postgres.index(pages, server, table="pages", encode=model.embed, force=True)
    ways = {by: rw.text.engines.Postgres(server, table="pages", encode=model.embed, by=by)
            for by in ("lexical", "dense", "hybrid")}  # fmt: skip
    runs = {by: postgres.search(queries, k=51) for by, postgres in ways.items()}
    runs = {by: run.filter(run["query"] != run["document"]) for by, run in runs.items()}  # a page is not its own answer

    data = rw.text.dataset(pages, queries, runs, texts.qrels, unjudged="irrelevant", depth=50)
    train, valid, test = rw.split(data, (0.5, 0.2, 0.3), seed=0)
    ranker = rw.LightGBMRanker("xendcg", leaves=15, threads=1).fit(train, valid)
    systems = {by: test.features[:, data.feature_names.index(f"scaled({by})")] for by in runs}
    print(rw.compare(systems | {"ranker": ranker}, test, ["ndcg@10"]))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        import pgserver

        with tempfile.TemporaryDirectory() as folder, pgserver.get_server(folder, cleanup_mode="stop") as server:
            main(server.get_uri())
