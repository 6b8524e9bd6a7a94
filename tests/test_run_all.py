"""`make test` runs a failed test once more by its own name."""

from pathlib import Path

import pytest

from tests.order import LONGEST, places
from tests.run_all import failures, is_roomy, node_id


@pytest.mark.parametrize(
    ("classname", "name", "expected"),
    [
        ("tests.test_run_all", "test_a[b.c::d]", "tests/test_run_all.py::test_a[b.c::d]"),
        ("tests.test_run_all.TestOf.TestIt", "test_a", "tests/test_run_all.py::TestOf::TestIt::test_a"),
        ("", "tests.crawl.test_pull", "tests/crawl/test_pull.py"),
    ],
)
def test_the_name_that_pytest_takes(classname, name, expected):
    assert node_id(classname, name) == expected


def test_failures_and_errors_with_their_first_line(tmp_path: Path):
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.test_run_all" name="test_good"/>'
        '<testcase classname="tests.test_run_all" name="test_bad"><failure message="assert 1 == 2&#10;more"/></testcase>'
        '<testcase classname="tests.test_run_all" name="test_worse"><error>broken</error></testcase>'
        "</testsuite></testsuites>"
    )
    assert failures(report) == {
        "tests/test_run_all.py::test_bad": "assert 1 == 2",
        "tests/test_run_all.py::test_worse": "broken",
    }


def test_no_report_names_no_test(tmp_path: Path):
    assert failures(tmp_path / "none.xml") == {}


def test_memory_is_used_only_where_there_is_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert not is_roomy(tmp_path / "none")
    monkeypatch.setattr("tests.run_all.ROOM", 1)
    assert is_roomy(tmp_path)
    monkeypatch.setattr("tests.run_all.ROOM", 1 << 60)
    assert not is_roomy(tmp_path)


def test_the_longest_files_come_first_and_then_those_with_most_tests():
    files = ["a.py", "b.py", "b.py", LONGEST[1], LONGEST[0], "c.py", "b.py"]
    ordered = [file for _, file in sorted(zip(places(files), files, strict=True))]
    assert ordered == [LONGEST[0], LONGEST[1], "b.py", "b.py", "b.py", "a.py", "c.py"]


def test_the_longest_files_are_there():
    assert [file for file in LONGEST if not (Path(__file__).parent / file).exists()] == []
