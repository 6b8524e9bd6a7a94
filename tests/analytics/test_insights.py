import csv
import io
import json
import sys
from datetime import UTC, datetime

import pyarrow.parquet
import pytest

from opilio.contracts.analytics import AspectFigures
from opilio.errors import Invalid
from opilio.insights.analytics import AnalyticsInsights
from opilio.insights.export import COLUMNS, as_csv, as_parquet
from opilio.insights.post_filter import PostFilter
from opilio.pages import Page
from tests.analytics.batches import body, event, failed, post

EVERY = PostFilter()
PRAISE, BLAME, ASK = (
    "Pin trâu, rất đẹp, hài lòng",
    "Giao hàng chậm, quá tệ, thất vọng",
    "Giá bao nhiêu vậy shop",
)


@pytest.fixture
async def insights(processor, buckets, database):
    """Five posts of a brand on two days, two of a competitor, one error, and one post of somebody else."""
    day = [{"published_at": f"2026-05-0{n}T10:00:00Z"} for n in range(1, 10)]
    brand = [
        post(f"b{n}", text, meta=day[n % 2]) for n, text in enumerate([PRAISE, BLAME, ASK, PRAISE, "=cmd()"])
    ]
    brand[0]["comments"] = [
        {"id": "c1", "text": "xấu quá", "likes": 9},
        {"id": "c2", "text": "đẹp", "likes": 1},
    ]
    batches = [
        ("p1", "p1-brand-0", "VF8", [*brand, failed("e1", "TIMEOUT")]),
        ("p1", "p1-competitor-0", "CX5", [post("k1", BLAME, meta=day[2]), post("k2", PRAISE, meta=day[2])]),
        ("p2", "p2-brand-0", "VF8", [post("b0", BLAME, meta=day[0])]),
    ]
    for n, (project, job, keyword, items) in enumerate(batches):
        await buckets.put("r", f"{n}.json", body(*items))
        await processor.process(
            event(f"r/{n}.json", f"e{n}", project_id=project, job_id=job, keyword=keyword)
        )
    return AnalyticsInsights(database)


async def test_summary(insights):
    summary = await insights.summary("p1")
    assert (summary.posts, summary.analysed, summary.errors) == (8, 7, 1)
    assert summary.sentiments["positive"] == 3
    assert summary.sentiments["negative"] == 2
    assert summary.intents["purchase_intent"] == 1
    assert summary.comment_sentiments == {"negative": 1, "positive": 1}
    assert summary.aspects["battery"] == AspectFigures(posts=3, negative=0, neutral=0, positive=3)
    assert summary.interactions.views == 7000
    assert len(summary.top_posts) == 5


async def test_an_unknown_project_is_empty_not_an_error(insights):
    summary = await insights.summary("nobody")
    assert (summary.posts, summary.sentiments, summary.sentiment_score) == (0, {}, None)
    assert await insights.posts("nobody") == Page(items=[], next_cursor=None)


@pytest.mark.parametrize("order", ["time", "impact"])
async def test_pages_hold_every_post_once(insights, order):
    seen, cursor = [], None
    while True:
        page = await insights.posts("p1", order=order, limit=2, cursor=cursor)
        seen += [(item.id, item.at if order == "time" else item.impact_score) for item in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    ids = [post_id for post_id, _ in seen]
    assert sorted(ids) == sorted(
        {"b0", "b1", "b2", "b3", "b4", "k1", "k2"} | ({"e1"} if order == "time" else set())
    )
    assert [mark for _, mark in seen] == sorted((mark for _, mark in seen), reverse=True)


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (PostFilter(sentiment="negative"), {"b1", "k1"}),
        (PostFilter(intent="purchase_intent"), {"b2"}),
        (PostFilter(role="competitor"), {"k1", "k2"}),
        (PostFilter(keyword="cx5"), {"k1", "k2"}),
        (PostFilter(keyword="giao hàng"), {"b1", "k1"}),
        (PostFilter(aspect="battery"), {"b0", "b3", "k2"}),
        (PostFilter(q="SHOP"), {"b2"}),
        (PostFilter(platform="youtube"), set()),
        (PostFilter(risk="low", sentiment="positive", role="brand"), {"b0", "b3"}),
        (
            PostFilter(since=datetime(2026, 5, 3, tzinfo=UTC), until=datetime(2026, 5, 4, tzinfo=UTC)),
            {"k1", "k2"},
        ),
    ],
)
async def test_filters(insights, wanted, ids):
    page = await insights.posts("p1", wanted)
    assert {item.id for item in page.items} == ids


async def test_trends_run_from_old_to_new(insights):
    days = await insights.trends("p1", bucket="day")
    assert [(row.at.day, row.posts) for row in days] == [(1, 3), (2, 2), (3, 2)]
    assert (days[2].negative, days[2].positive) == (1, 1)


async def test_keywords(insights):
    words = {row.keyword: row for row in await insights.keywords("p1")}
    assert words["giao hàng"].posts == 2
    assert words["giao hàng"].negative == 2


async def test_errors(insights):
    (error,) = await insights.errors("p1")
    assert (error.error_category, error.error_code, error.errors) == ("network", "TIMEOUT", 1)
    page = await insights.error_list("p1", code="TIMEOUT")
    assert [item.content_id for item in page.items] == ["e1"]
    assert (await insights.error_list("p1", code="DNS_ERROR")).items == []


async def test_share_of_voice(insights):
    voices = {row.keyword: row for row in await insights.share_of_voice("p1")}
    assert (voices["VF8"].role, voices["CX5"].role) == ("brand", "competitor")
    assert voices["VF8"].share_percent == pytest.approx(71.43)
    assert sum(row.share_percent for row in voices.values()) == pytest.approx(100, abs=0.1)


async def test_comments_of_a_post(insights):
    comments = await insights.comments("p1", "tiktok", "b0")
    assert [(comment.comment_id, comment.sentiment) for comment in comments] == [
        ("c1", "negative"),
        ("c2", "positive"),
    ]
    assert await insights.comments("p2", "tiktok", "b0") == []


async def test_export_gives_every_row_and_no_formula(insights):
    text = b"".join([piece async for piece in as_csv(insights.export("p1", batch=3))]).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 8
    assert {row["content_text"] for row in rows if row["id"] == "b4"} == {"'=cmd()"}


async def parquet_of(insights, project, wanted=EVERY, batch=3):
    data = b"".join([piece async for piece in as_parquet(insights.export(project, wanted, batch=batch))])
    return pyarrow.parquet.ParquetFile(io.BytesIO(data))


async def test_parquet_reads_back_as_what_the_database_holds(insights, rows):
    file = await parquet_of(insights, "p1")
    assert file.num_row_groups == 3
    found = {row["id"]: row for row in file.read().to_pylist()}
    kept = await rows("select * from post_analytics where project_id = 'p1'")
    assert len(found) == len(kept) == 8
    for row in kept:
        read = found[row["id"]]
        for name in COLUMNS.keys() - {"aspects"}:
            expected = pytest.approx(row[name]) if isinstance(row[name], float) else row[name]
            assert read[name] == expected, (row["id"], name)
        assert json.loads(read["aspects"]) == json.loads(json.dumps(row["aspects"], default=float))
    assert found["b4"]["content_text"] == "=cmd()"  # no spreadsheet runs it here
    assert found["e1"]["error_code"] == "TIMEOUT"


async def test_parquet_keeps_the_filter_and_an_empty_file_its_columns(insights):
    some = await parquet_of(insights, "p1", PostFilter(role="competitor"))
    assert sorted(some.read().column("id").to_pylist()) == ["k1", "k2"]
    none = await parquet_of(insights, "nobody")
    assert (none.metadata.num_rows, none.schema_arrow.names) == (0, list(COLUMNS))
    assert str(none.schema_arrow.field("at").type) == "timestamp[us, tz=UTC]"


async def test_an_export_goes_out_while_it_is_read(insights):
    """What was written is handed on at once, and one batch is asked for at a time."""
    asked = 0

    async def counted():
        nonlocal asked
        async for batch in insights.export("p1", batch=2):
            asked += 1
            yield batch

    sizes = [(asked, len(piece)) async for piece in as_parquet(counted())]
    assert [number for number, _ in sizes] == [1, 2, 3, 4, 4]
    assert all(size > 100 for _, size in sizes)


async def test_parquet_without_pyarrow_says_what_to_install(insights, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Invalid, match=r"pip install 'opilio\[server,parquet\]'"):
        await parquet_of(insights, "p1")


@pytest.mark.parametrize("cursor", ["x", "e30=", "WyJ0aW1lIiwxLDJd"])
async def test_a_foreign_cursor_is_refused(insights, cursor):
    with pytest.raises(Invalid, match="cursor"):
        await insights.posts("p1", cursor=cursor)


async def test_other_words_are_refused(insights):
    with pytest.raises(Invalid, match="bucket"):
        await insights.trends("p1", bucket="year")
    with pytest.raises(Invalid, match="order"):
        await insights.posts("p1", order="name")
