"""Reading files of policies: what can be read is read, what cannot is named."""

import gzip
import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from opilio.contracts.policies import ImportRow, PolicyInput, PolicyPatch
from opilio.crawl.export_policies import write_csv, write_jsonl
from opilio.crawl.import_policies import (
    FIELDS,
    read_csv,
    read_jsonl,
    read_sitemap,
    read_urls,
    suggest_columns,
)
from opilio.crawl.policies import Draft
from opilio.crawl.policy import check
from opilio.errors import Invalid

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def csv_of(*lines: str) -> list:
    return list(read_csv(f"{line}\n" for line in lines))


def only_error(readings: list) -> str:
    (row,) = readings
    assert isinstance(row, ImportRow), row
    assert row.status == "rejected"
    return row.error


class TestCsv:
    def test_it_works(self):
        (draft,) = csv_of(
            "url,enabled,frequency_hours,priority,max_retries,retry_backoff_minutes,timeout_minutes,queue,crawl_config,hot,labels,next_run_at",
            'https://a.example/1,FALSE,6,70,0,2.5,15,js,"{""js_required"": true}",true,"{""team"": ""blue""}",2030-01-31T08:00:00Z',
        )
        assert draft.row == 1
        assert draft.url == "https://a.example/1"
        assert draft.patch == PolicyPatch(
            url="https://a.example/1",
            enabled=False,
            frequency_hours=6.0,
            priority=70,
            max_retries=0,
            retry_backoff_minutes=2.5,
            timeout_minutes=15.0,
            queue="js",
            crawl_config={"js_required": True},
            hot=True,
            labels={"team": "blue"},
            next_run_at=datetime(2030, 1, 31, 8, tzinfo=UTC),
        )

    def test_an_empty_cell_says_nothing(self):
        (draft,) = csv_of("url,priority,labels", "https://a.example/, ,")
        assert draft.patch.priority is UNSET
        assert draft.patch.labels is UNSET

    def test_semicolons_and_a_byte_order_mark_are_taken(self):
        (draft,) = csv_of("\ufeffurl;priority", "https://a.example/;7")
        assert (draft.url, draft.patch.priority) == ("https://a.example/", 7)

    def test_blank_lines_are_no_rows(self):
        assert [d.row for d in csv_of("url", "", "https://a.example/1", "", "https://a.example/2")] == [1, 2]

    @pytest.mark.parametrize(
        ("column", "cell", "error"),
        [
            ("priority", "high", "priority: 'high' is not a whole number"),
            ("priority", "7.5", "priority: '7.5' is not a whole number"),
            ("priority", "101", "priority: must be at most 100"),
            ("frequency_hours", "nan", "frequency_hours: 'nan' is not a number"),
            ("frequency_hours", "0", "frequency_hours: must be above 0"),
            ("enabled", "yes", "enabled: 'yes' is not true or false"),
            ("hot", "1", "hot: '1' is not true or false"),
            ("queue", "fast", "queue: 'fast' is not one of the allowed values"),
            ("labels", "[1]", "labels: '[1]' is not key=value pairs or a JSON object"),
            ("labels", '{"a": 1}', "labels[...]: must be text"),
            ("crawl_config", "{", "crawl_config: '{' is not a JSON object"),
            ("rule_set", '{"a":' * 5000, "is not a JSON object"),
            ("next_run_at", "tomorrow", "next_run_at: must be a date and time"),
            ("next_run_at", "2030-01-31T08:00:00", "next_run_at: needs a time zone"),
        ],
    )
    def test_a_wrong_cell_is_named(self, column, cell, error):
        quoted = cell.replace('"', '""')
        readings = csv_of(f"url,{column}", f'https://a.example/,"{quoted}"', "https://b.example/,")
        assert error in only_error(readings[:1])
        assert readings[0].url == "https://a.example/"
        assert isinstance(readings[1], Draft)  # the neighbour is unharmed

    def test_an_unknown_column_is_named_in_every_row(self):
        readings = csv_of("url,colour", "https://a.example/,red", "https://b.example/,")
        assert all(row.error.startswith("colour: is no field of a policy") for row in readings)

    def test_labels_as_a_person_writes_them(self):
        (draft,) = csv_of("url,labels", "https://a.example/,team=shoes; season = summer")
        assert draft.patch.labels == {"team": "shoes", "season": "summer"}
        assert "labels: 'shoes' is not key=value" in only_error(
            csv_of("url,labels", "https://a.example/,shoes")
        )

    def test_columns_are_mapped_by_hand_and_skipped(self):
        lines = ["Link,Prio,Colour\n", "https://a.example/,7,red\n"]
        assert suggest_columns(lines) == {"Link": "url", "Prio": "priority", "Colour": ""}
        (draft,) = read_csv(lines, {"Link": "url", "Prio": "priority", "Colour": ""})
        assert (draft.url, draft.patch.priority) == ("https://a.example/", 7)
        with pytest.raises(Invalid, match="no column url"):
            list(read_csv(lines))

    def test_a_row_with_too_many_or_too_few_cells(self):
        readings = csv_of(
            "url,priority", "https://a.example/", "https://a.example/,1,2", "https://b.example/,3"
        )
        assert "has 1 cells" in readings[0].error
        assert "has 3 cells" in readings[1].error
        assert isinstance(readings[2], Draft)

    def test_a_missing_url(self):
        assert only_error(csv_of("url,priority", ",5")) == "url: is missing"

    @pytest.mark.parametrize("header", ["", "address,priority", "url,url"])
    def test_a_header_that_cannot_be_used(self, header):
        with pytest.raises(Invalid, match="header"):
            csv_of(header, "https://a.example/,5")

    def test_an_unclosed_quote_loses_no_row_before_it(self):
        readings = csv_of("url", "https://a.example/", '"https://b.example/')
        assert isinstance(readings[0], Draft)
        assert "cannot be read" in readings[1].error

    def test_a_huge_cell_is_refused_and_the_next_row_read(self):
        readings = csv_of("url", "x" * 200_000, "https://b.example/")
        assert "field limit" in readings[0].error
        assert readings[1].url == "https://b.example/"


class TestJsonLines:
    def test_it_works(self):
        lines = [
            '{"url": "https://a.example/", "priority": 3, "queue": null}\n',
            "\n",
            '{"url": "https://b.example/"}',
        ]
        first, second = read_jsonl(lines)
        assert first.patch == PolicyPatch(url="https://a.example/", priority=3, queue=None)
        assert (second.row, second.url) == (3, "https://b.example/")

    @pytest.mark.parametrize(
        ("line", "error"),
        [
            ("{", "is not JSON"),
            ("[]", "must be an object"),
            ("{}", "url: is missing"),
            ('{"url": 5}', "url: must be text"),
            ('{"url": "https://a.example/", "priority": "5"}', "priority: must be a whole number"),
            ('{"url": "https://a.example/", "priority": true}', "priority: must be a whole number"),
            ('{"url": "https://a.example/", "enabled": 1}', "enabled: must be true or false"),
            ('{"url": "https://a.example/", "colour": 1}', "colour: is no field of a policy"),
            ('{"url": "https://a.example/", "frequency_hours": NaN}', "is not JSON"),
            ('{"url": "https://a.example/", "labels": {"a": null}}', "labels[...]: must be text"),
            ('{"url": "https://a.example/", "rule_set": ' + '{"a":' * 9000, "is nested too deeply"),
            ('{"url": "\\ud800"}', "is not JSON"),
        ],
    )
    def test_a_wrong_line_is_named(self, line, error):
        assert error in only_error(list(read_jsonl([line])))

    def test_a_deep_value_that_can_still_be_read_is_refused_by_the_rules(self):
        (draft,) = read_jsonl(
            ['{"url": "https://a.example/", "rule_set": ' + '{"a":' * 500 + "1" + "}" * 501]
        )
        with pytest.raises(Invalid, match="nested more than"):
            check(draft.patch)


def test_a_list_of_urls():
    drafts = list(read_urls(["https://a.example/\n", "\n", "# a comment\n", "https://b.example/"]))
    assert [(draft.row, draft.url) for draft in drafts] == [
        (1, "https://a.example/"),
        (4, "https://b.example/"),
    ]


class TestSitemap:
    def test_it_works(self):
        data = f"""<?xml version="1.0"?><urlset {NAMESPACE} xmlns:i="http://www.google.com/schemas/sitemap-image/1.1">
        <url><loc> https://a.example/?a=1&amp;b=2 </loc><priority>0.9</priority>
        <i:image><i:loc>https://a.example/picture.png</i:loc></i:image></url>
        <url><loc>https://a.example/2</loc></url></urlset>""".encode()
        for body in (data, gzip.compress(data), data.decode().encode("utf-16")):
            drafts = list(read_sitemap(body))
            assert [draft.url for draft in drafts] == ["https://a.example/?a=1&b=2", "https://a.example/2"]
            assert drafts[0].patch == PolicyPatch(url=drafts[0].url)

    def test_a_url_without_a_location_is_rejected_alone(self):
        rows = list(
            read_sitemap(
                f"<urlset {NAMESPACE}><url/><url><loc>https://a.example/</loc></url></urlset>".encode()
            )
        )
        assert rows[0].error == "url: <loc> is missing or empty"
        assert rows[1].row == 2

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", "not XML"),
            (b"<urlset><url>", "not XML"),
            (b"\xff\xfe\x00", "not XML"),
            (b'<?xml version="1.0" encoding="nonsense"?><urlset/>', "not XML"),
            (b"<html/>", "begins with <html>"),
            (b"<sitemapindex/>", "index of sitemaps"),
            (b'<!DOCTYPE x [<!ENTITY a "b">]><urlset><url><loc>&a;</loc></url></urlset>', "DOCTYPE"),
            (gzip.compress(b"<urlset/>", mtime=0)[:-4], "incomplete"),
            (gzip.compress(b"<urlset/>" + b" " * (65 * 1024 * 1024), mtime=0), "larger than 64 MiB"),
        ],
    )
    def test_what_is_no_sitemap_is_refused_whole(self, data, error):
        with pytest.raises(Invalid, match=error):
            list(read_sitemap(data))

    def test_entities_are_refused_in_every_encoding(self):
        bomb = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE u [<!ENTITY a "aaaa">]><urlset>&a;</urlset>'
        with pytest.raises(Invalid, match="DOCTYPE"):
            list(read_sitemap(bomb.encode("utf-16")))


def test_the_examples_of_the_guide_can_be_read():
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "import-policies.md").read_text()
    blocks = [block.strip("\n").splitlines() for block in guide.split("```")[1::2]]
    table = next(block for block in blocks if block[0].startswith("url,"))
    lines = next(block for block in blocks if block[0].startswith("{"))
    assert [draft.url for draft in csv_of(*table)] == ["https://shop.example/p/1", "https://shop.example/p/2"]
    assert [draft.patch.frequency_hours for draft in read_jsonl(lines)] == [6]


# ── properties ───────────────────────────────────────────────────────────────────────────────────

text = st.text(max_size=30).filter(lambda t: "\x00" not in t)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
minutes = st.floats(0.001, 10_000, allow_nan=False)
policies = st.builds(
    PolicyInput,
    url=st.just("https://a.example/")
    | st.from_regex(r"https://[a-z]{1,9}\.example/[a-z,;\"]{0,9}", fullmatch=True),
    enabled=st.booleans(),
    frequency_hours=minutes,
    priority=st.integers(0, 100),
    max_retries=st.integers(0, 100),
    retry_backoff_minutes=minutes,
    timeout_minutes=minutes,
    queue=st.none() | st.sampled_from(["http", "js", "special"]),
    crawl_config=st.dictionaries(text, json_values, max_size=3),
    rule_set=st.dictionaries(text, json_values, max_size=3),
    hot=st.booleans(),
    labels=st.dictionaries(text, text, max_size=3),
    next_run_at=st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
)


def as_policy(reading) -> PolicyInput:
    assert isinstance(reading, Draft), reading
    said = {name: getattr(reading.patch, name) for name in FIELDS}
    return PolicyInput(**{name: value for name, value in said.items() if value is not UNSET})


@settings(max_examples=60, deadline=None)
@given(st.lists(policies, max_size=4))
def test_what_is_written_is_read_back(wanted):
    for write, read in ((write_jsonl, read_jsonl), (write_csv, read_csv)):
        lines = io.StringIO("".join(write(wanted)), newline="")
        assert [as_policy(reading) for reading in read(lines)] == wanted


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_no_text_breaks_a_reader(anything):
    lines = anything.splitlines(keepends=True)
    for reading in [*read_jsonl(lines), *read_csv(["url,priority\n", *lines])]:
        assert isinstance(reading, Draft) or (reading.status == "rejected" and reading.error)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([*FIELDS, "colour"]), json_values, max_size=4))
def test_a_line_is_either_whole_and_right_or_rejected(fields):
    (reading,) = read_jsonl([json.dumps(fields)])
    if isinstance(reading, Draft):
        assert set(fields) <= set(FIELDS)
        said = {name for name in FIELDS if getattr(reading.patch, name) is not UNSET}
        assert said == set(fields)
    else:
        assert reading.error


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda t: f"<urlset>{t}</urlset>".encode()))
def test_no_bytes_break_the_sitemap_reader(data):
    try:
        readings = list(read_sitemap(data))
    except Invalid:
        return
    assert all(isinstance(reading, Draft | ImportRow) for reading in readings)
