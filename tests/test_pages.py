"""Pages and their cursors: what a list gave out is read back, anything else is refused."""

from uuid import UUID

import pytest

from opilio.errors import Invalid
from opilio.pages import page_of, read_number, read_text, read_uuid, write_cursor


def test_the_cursor_of_a_page_names_its_last_row():
    page = page_of([5, 4, 3], 2, str, lambda row: row)
    assert page.items == ["5", "4"]
    assert read_number(page.next_cursor) == 4


def test_the_last_page_has_no_cursor():
    assert page_of([5, 4], 2, str, lambda row: row).next_cursor is None
    assert page_of([], 2, str, lambda row: row).next_cursor is None


def test_what_was_written_is_read():
    assert read_text(write_cursor("việc-1/tiktok")) == "việc-1/tiktok"
    assert read_uuid(write_cursor(str(UUID(int=7)))) == UUID(int=7)
    assert read_text(None) is read_uuid(None) is read_number(None) is None


@pytest.mark.parametrize("cursor", ["AAAA", "²", "é", "=", "nonsense!", "gICA"])
def test_anything_else_is_refused(cursor):
    for read in (read_text, read_uuid, read_number):
        with pytest.raises(Invalid, match="cursor"):
            read(cursor)


@pytest.mark.parametrize("text", ["12a", "-1", "²", "9" * 19])
def test_a_number_is_digits_that_a_bigint_holds(text):
    with pytest.raises(Invalid):
        read_number(write_cursor(text))
