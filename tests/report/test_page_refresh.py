"""The page about a refresh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview import metric_names, names
from multiview.data.questions import GENERATED
from multiview.refresh import index as drift
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.page_tree import read


def test_the_page_says_what_the_gate_found_and_how_far_a_trained_index_has_drifted(
    corpus: ChangingCorpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drift, "RETRAIN_ERROR", 1e9)
    settings: dict[str, Any] = {"index": {"kind": "IVF2,SQ8"}}
    corpus.refresh(**settings)
    corpus.change(2, 7)
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh(**settings)
    found = corpus.verdict(records)
    page = read((corpus.files(records["report"][names.REPORT]) / names.REPORT_PAGE_FILE).read_text())
    assert page.one("h1").text == "Refused"
    assert found["says"] in page.one("section", id="summary").text
    checks = [[cell.text for cell in (*row.all("th"), *row.all("td"))] for row in rows(page, "checks")]
    assert checks == [
        [check["name"], "passed" if check["passed"] else "refused", check["says"]]
        for check in found["checks"]
    ]
    metrics = {row.one("th").text: [cell.text for cell in row.all("td")][:2] for row in rows(page, "metrics")}
    assert metrics == {
        metric_names.short(name): [f"{100 * of[who]:.1f}" for who in ("champion", "challenger")]
        for name, of in found["metrics"].items()
    }
    assert records["challenger/index"][names.INDEX].facts["drift_added"] > 0
    assert "of its views were added since it was trained" in page.text
    assert "generated questions" not in page.text


def test_the_page_of_a_first_refresh_has_no_champion_to_compare_with(tmp_path: Path) -> None:
    corpus = ChangingCorpus.make(tmp_path)
    source = corpus.settings["questions"]["source"]
    made = [{**row, "qid": f"{GENERATED}{row['qid']}"} for row in pq.read_table(source).to_pylist()]
    pq.write_table(pa.Table.from_pylist(made), source)
    records = corpus.refresh(refresh={"model": corpus.with_model()})
    page = read((corpus.files(records["report"][names.REPORT]) / names.REPORT_PAGE_FILE).read_text())
    head = page.one("section", id="metrics").one("thead")
    assert [cell.text for cell in head.all("th")] == ["metric", "challenger"]
    assert {len(row.all("td")) for row in rows(page, "metrics")} == {1}
    assert "stored views" not in page.text and "difference" not in page.text
    assert "measured on generated questions" in page.text.lower()
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d UTC", page.text)


def rows(page: Any, section: str) -> list[Any]:
    return page.one("section", id=section).one("tbody").all("tr")
