"""The requests of the page about serving get the answers that stand there."""

import asyncio
import json
import re
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.docs.commands import ROOT

pytest.importorskip("starlette", reason="needs the extra serve")


def test_requests_of_the_page_are_answered_as_it_says():
    from rankwise.wings.serve.http import Service

    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(8, 2, 200), rng.integers(0, 9, 200), rng.integers(0, 2, 200)])
    lists = rw.RankingDataset(
        features, rng.integers(0, 3, 200), range(0, 201, 10), feature_names=["bm25", "clicks", "kind"],
        categorical=[2], categories={2: ("page", "news")},
    )  # fmt: skip
    application = Service({"model": rw.LightGBMRanker("xendcg", rounds=3, threads=1).fit(lists)}).application()

    def ask(body: str) -> tuple[int, Any]:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body.encode(), "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/score", "headers": [], "query_string": b""}
        asyncio.run(application(scope, receive, send))
        return sent[0]["status"], json.loads(sent[1]["body"])

    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    asked, answered, wrong, error = re.findall(r"(?s)```json\n(.*?)```", page)
    status, answer = ask(asked)
    assert (status, answer.keys(), len(answer["scores"])) == (200, json.loads(answered).keys(), 2)
    assert ask(wrong) == (422, json.loads(error))
