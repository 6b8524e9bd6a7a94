"""Named SQL: how it is read, and that PostgreSQL understands every statement of every part."""

import re
from pathlib import Path

import pytest

from opilio.adapters.postgres import Database, load_queries
from opilio.adapters.postgres.queries import Queries, parse_statement

PARTS = [
    "opilio.access",
    "opilio.adapters",
    "opilio.analytics",
    "opilio.audit",
    "opilio.collector",
    "opilio.crawl",
    "opilio.delivery",
    "opilio.insights",
]


def test_names_become_numbers() -> None:
    statement = parse_statement("x", "select :a::int, ':b', :c, :a -- :d\nfrom t where x::text = 'it''s :e';")
    assert statement.sql == "select $1::int, ':b', $2, $1 \nfrom t where x::text = 'it''s :e'"
    assert statement.params == ("a", "c")


def test_a_parameter_cannot_be_forgotten() -> None:
    with pytest.raises(TypeError, match=r"missing \['a'\], unknown \['b'\]"):
        parse_statement("x", "select :a").bind({"b": 1})


def test_parts_can_be_left_out() -> None:
    queries = Queries(
        {"x": "select :a,\n  -- [rare\n  :b,\n  -- rare]\n  :c\n-- [rare\n, :b + 1\n-- rare]\n"}
    )
    assert queries.x.params == ("a", "b", "c")
    shorter = queries.without("x", "rare")
    assert (shorter.sql.split(), shorter.params) == (["select", "$1,", "$2"], ("a", "c"))
    assert queries.without("x", "rare") is shorter
    with pytest.raises(AttributeError, match="x has no part odd"):
        queries.without("x", "odd")


def test_something_may_stand_in_the_place_of_a_part() -> None:
    text = "select\n-- [rare\n:a\n-- rare]\n-- [no rare\nnull\n-- no rare]\n-- [other\n, :b\n-- other]\n"
    queries = Queries({"x": text})
    assert (queries.x.sql.split(), queries.x.params) == (["select", "$1", ",", "$2"], ("a", "b"))
    assert queries.without("x", "rare").sql.split() == ["select", "null", ",", "$1"]
    assert queries.without("x", "rare", "other").sql.split() == ["select", "null"]


@pytest.mark.parametrize("part", PARTS)
def test_every_statement_is_used(part: str) -> None:
    code = "".join(file.read_text() for file in Path("src/opilio").rglob("*.py"))
    unused = [s.name for s in load_queries(part) if not re.search(rf"""[.'"]{s.name}\b""", code)]
    assert unused == []


@pytest.mark.parametrize("part", [*PARTS, "opilio.runtime"])
async def test_every_statement_is_understood(database: Database, part: str) -> None:
    statements = list(load_queries(part))
    assert statements
    async with database.session() as session:
        for statement in statements:
            prepared = await session.connection.prepare(statement.sql, name=statement.name)
            assert len(prepared.get_parameters()) == len(statement.params), statement.name
