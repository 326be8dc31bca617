"""What people judge: the documents of a plan with their texts, in an order of each judge's own, and the answers."""

import re
import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from rankwise import Stream, check
from rankwise.base.arrays import Json
from rankwise.data.io import BODIES, read_records, read_table, text_of
from rankwise.wings.judging.judgements import COLUMNS, CONTROL, JudgementFile, checked

PLAN = "plan"
"""The judge of rows that are copied from the plan of a sample: what was judged before, and what is to be judged."""
_LONGEST = 100  # letters of a judge's name
_KEYS = ["query", "document"]


@dataclass
class _Judge:
    """What one judge has said: documents by their number, and in which order they come and were answered."""

    order: list[int]
    grades: dict[int, float] = field(default_factory=dict)
    skipped: dict[int, None] = field(default_factory=dict)
    answered: dict[int, None] = field(default_factory=dict)

    def say(self, document: int, grade: float | None) -> None:
        """Take an answer: a grade; or none, which takes one back, or skips the document."""
        had = self.grades.pop(document, None)
        self.skipped.pop(document, None)
        self.answered.pop(document, None)
        if grade is not None:
            self.grades[document] = grade
        elif had is None:
            self.skipped[document] = None
        if grade is not None or had is None:
            self.answered[document] = None


class JudgingTask:
    """The documents of a plan, and a file to which every answer is appended before it is acknowledged.

    Queries come in the order of the plan. The order of a query's documents is drawn for each judge, by ``seed``.
    """

    def __init__(
        self, plan: Path, documents: Path, queries: Path, output: Path, *, seed: int = 0, most: int = 4
    ) -> None:
        self.most, self._seed, self._changing = most, seed, threading.RLock()
        frame = checked(read_table(plan), plan, _KEYS, once=True)
        frame = frame.select(name for name in (*_KEYS, "grade", "probability") if name in frame.columns)
        open_rows = frame if "grade" not in frame.columns else frame.filter(pl.col("grade").is_null())
        if open_rows.is_empty():
            raise check.error("every document of the plan has a grade", got=f"{frame.height:,}", where=str(plan))
        self._rows: list[Json] = open_rows.drop("grade", strict=False).to_dicts()
        self._places = {(row["query"], row["document"]): place for place, row in enumerate(self._rows)}
        self._of_query = {query: place for place, query in enumerate(open_rows["query"].unique(maintain_order=True))}
        self.queries = _texts(queries, self._of_query)
        self.documents = _texts(documents, {row["document"] for row in self._rows})
        sampled = ("probability",) if "probability" in frame.columns else ()
        self.file = JudgementFile(output, columns=(*COLUMNS, *sampled, "time"))
        try:
            self._judges: dict[str, _Judge] = {}
            if sampled:
                self._copy(frame, plan)
            for query, document, judge, grade in self.file.rows.select(*_KEYS, "judge", "grade").iter_rows():
                if judge != PLAN and (query, document) in self._places:
                    self._judge(judge).say(self._places[query, document], grade)
        except BaseException:
            self.file.close()
            raise

    def _copy(self, frame: pl.DataFrame, plan: Path) -> None:
        """Copy the plan of a sample into the file of answers, which then tells what of it is not judged yet."""
        kept = self.file.rows
        strange = kept.join(frame, on=[*_KEYS, "probability"], how="anti")
        if strange.height:
            got, hint = f"document {strange['document'][0]!r} of query {strange['query'][0]!r}", "name another output"
            what = f"the file of answers belongs to another plan than {plan}"
            raise check.error(what, got=got, where=str(self.file.path), hint=hint)
        rows = frame.join(kept.filter(pl.col("judge") == PLAN), on=_KEYS, how="anti", maintain_order="left")
        if rows.height:
            self.file.append(*({"grade": None, **row, "judge": PLAN} for row in rows.to_dicts()))

    def _judge(self, name: str) -> _Judge:
        if not name or name != name.strip() or len(name) > _LONGEST or re.search(CONTROL, name) or name == PLAN:
            what = f"a judge has a name of 1 to {_LONGEST} letters, other than {PLAN!r}"
            raise check.error(what, got=repr(name[:_LONGEST]))
        if name not in self._judges:
            names = np.array([f"{name}\t{row['query']}\t{row['document']}" for row in self._rows])
            keys = Stream(self._seed, query_ids=names).child("judging").per_query(names.size)[:, 0]
            order = np.lexsort((keys, np.array([self._of_query[row["query"]] for row in self._rows])))
            self._judges[name] = _Judge(order.tolist())
        return self._judges[name]

    def state(self, name: str, place: int | None = None) -> Json:
        """Return what the page shows a judge: the next document (or that at ``place``), and how much is done."""
        with self._changing:
            judge = self._judge(name)
            if place is None:
                place = next((one for one in judge.order if one not in judge.grades and one not in judge.skipped), None)
            counts = {"judged": len(judge.grades), "skipped": len(judge.skipped), "documents": len(self._rows)}
            shown = None if place is None else self._shown(place, judge)
            return {**counts, "most": self.most, "undo": bool(judge.answered), "document": shown}

    def answer(self, name: str, query: str, document: str, grade: float | None) -> Json:
        """Keep a grade, or none for a document that is skipped; the answer is on the disk when this returns."""
        if grade is not None and (isinstance(grade, bool) or grade not in range(self.most + 1)):
            raise check.error(f"a grade is a whole number from 0 to {self.most}", got=repr(grade)[:80])
        if (query, document) not in self._places:
            raise check.error("the document is not in the plan", got=f"{document!r} of query {query!r}")
        with self._changing:
            judge, place = self._judge(name), self._places[query, document]
            if place not in judge.grades or judge.grades[place] != grade:  # else the page asks again, being cut off
                said = [None, grade] if place in judge.grades and grade is not None else [grade]
                self._keep(name, judge, place, said)
            return self.state(name)

    def undo(self, name: str) -> Json:
        """Take back the last answer of a judge, and show its document again."""
        with self._changing:
            judge = self._judge(name)
            if not judge.answered:
                return self.state(name)
            place = next(reversed(judge.answered))
            had = judge.grades.get(place)
            if had is not None:
                self._keep(name, judge, place, [None])
            else:
                judge.answered.pop(place)
                judge.skipped.pop(place)
            state = self.state(name, place)
            state["document"]["grade"] = had
            return state

    def again(self, name: str) -> Json:
        """Show the documents that a judge skipped."""
        with self._changing:
            judge = self._judge(name)
            judge.answered = {place: None for place in judge.answered if place in judge.grades}
            judge.skipped.clear()
            return self.state(name)

    def counts(self) -> tuple[int, int]:
        """Return how many judges there are, and how many grades they have given."""
        grades = [len(judge.grades) for judge in self._judges.values()]
        return sum(map(bool, grades)), sum(grades)

    def lost(self) -> tuple[int, int]:
        """Return how many queries and documents have no text."""
        documents = {row["document"] for row in self._rows}
        return len(self._of_query.keys() - self.queries.keys()), len(documents - self.documents.keys())

    def _keep(self, name: str, judge: _Judge, place: int, grades: list[float | None]) -> None:
        self.file.append(*({**self._rows[place], "grade": grade, "judge": name} for grade in grades))
        for grade in grades:
            judge.say(place, grade)

    def _shown(self, place: int, judge: _Judge) -> Json:
        """Return a document as the page shows it; nothing of it tells the systems, or what they made of it."""
        row = self._rows[place]
        same = [one for one in judge.order if self._rows[one]["query"] == row["query"]]
        title, text = self.documents.get(row["document"], ("", None))
        asked = " ".join(filter(None, self.queries.get(row["query"], ("", None)))) or None
        of_query = {"number": same.index(place) + 1, "of": len(same)}
        return {"query": row["query"], "asked": asked, "id": row["document"], "title": title, "text": text, **of_query}


def _texts(path: Path, ids: Collection[str]) -> dict[str, tuple[str, str | None]]:
    """Read title and text of each id that the file has; a title alone is the text."""
    texts = {}
    for number, key, value in read_records(path):
        if key in ids:
            title, text = "", text_of(value)
            if isinstance(value, dict) and text is not None:
                title, text = value.get("title") or "", next(value[name] for name in BODIES if name in value)
            elif isinstance(value, dict) and text_of(value.get("title")):
                text = value["title"]
            if key in texts:
                where = f"line {number} of {path}"
                raise check.error("an id may stand only once in a file of texts", got=repr(key), where=where)
            texts[key] = title, text
    return texts
