"""Checks of settings with a form of their own: each says what the value should be."""

import re
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from opilio.adapters.postgres.database_url import parse_database_url
from opilio.crawl.priority import Bands, Rules
from opilio.errors import OpilioError
from opilio.net.allowed_addresses import parse_allow
from opilio.runtime.setting_values import Check


def addresses(value: str) -> None:
    parse_allow(value)


def database_url(value: str) -> None:
    try:
        parse_database_url(value)
    except OpilioError as error:
        raise ValueError(str(error)) from None


def _begins_with(*schemes: str) -> Check:
    def check(value: str) -> None:
        if not value.startswith(schemes):
            raise ValueError(f"must begin with {' or '.join(schemes)}")

    return check


amqp_url = _begins_with("amqp://", "amqps://")
redis_url = _begins_with("redis://", "rediss://", "unix://")
blobs_url = _begins_with("s3://", "file:///", "memory://")


def not_empty(value: str) -> None:
    if not value:
        raise ValueError("must not be empty")


def web_address(value: str) -> None:
    if not re.fullmatch(r"https?://[^/?#\s]+(/[A-Za-z0-9._~/-]*)?", value):
        raise ValueError(
            "must be an http or https address, with a path or without, such as https://example.com/opilio"
        )


def time_zone(value: str) -> None:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is not an IANA time zone such as Asia/Ho_Chi_Minh") from error


def parse_rules(table: dict[str, dict[str, list[float]]]) -> Rules:
    unknown = table.keys() - set(Rules.__dataclass_fields__)
    if unknown:
        raise ValueError(f"unknown rules {sorted(unknown)}; known are {sorted(Rules.__dataclass_fields__)}")
    given = {
        name: Bands(tuple(row.get("bands", ())), tuple(int(p) for p in row.get("points", ())))
        for name, row in table.items()
    }
    return Rules(**given)


def rule_table(value: dict[str, dict[str, list[float]]]) -> None:
    parse_rules(value)
