"""Types of settings with a form of their own; each checks its value and says what it should be."""

import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator
from pydantic_settings import NoDecode

from opilio.adapters.postgres.database_url import parse_database_url
from opilio.crawl.priority import Bands, Rules
from opilio.errors import OpilioError
from opilio.net.allowed_addresses import parse_allow


def _addresses(value: str) -> str:
    parse_allow(value)
    return value


def _database_url(value: str) -> str:
    try:
        parse_database_url(value)
    except OpilioError as error:
        raise ValueError(str(error)) from None
    return value


def _begins_with(*schemes: str) -> AfterValidator:
    def check(value: str) -> str:
        if not value.startswith(schemes):
            raise ValueError(f"must begin with {' or '.join(schemes)}")
        return value

    return AfterValidator(check)


def _web_address(value: str) -> str:
    if not re.fullmatch(r"https?://[^/?#\s]+(/[A-Za-z0-9._~/-]*)?", value):
        raise ValueError(
            "must be an http or https address, with a path or without, such as https://example.com/opilio"
        )
    return value


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{value!r} is not an IANA time zone such as Asia/Ho_Chi_Minh") from error
    return value


def _words(value: object) -> object:
    """`tiktok,youtube` in the environment, a list in the file."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return value


def parse_rules(table: dict[str, dict[str, list[float]]]) -> Rules:
    unknown = table.keys() - set(Rules.__dataclass_fields__)
    if unknown:
        raise ValueError(f"unknown rules {sorted(unknown)}; known are {sorted(Rules.__dataclass_fields__)}")
    given = {
        name: Bands(tuple(row.get("bands", ())), tuple(int(p) for p in row.get("points", ())))
        for name, row in table.items()
    }
    return Rules(**given)


def _rule_table(value: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    parse_rules(value)
    return value


Addresses = Annotated[str, AfterValidator(_addresses)]
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
AmqpUrl = Annotated[str, _begins_with("amqp://", "amqps://")]
RedisUrl = Annotated[str, _begins_with("redis://", "rediss://", "unix://")]
BlobsUrl = Annotated[str, _begins_with("s3://", "file:///", "memory://")]
WebAddress = Annotated[str, AfterValidator(_web_address)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_words)]
RuleTable = Annotated[dict[str, dict[str, list[float]]], AfterValidator(_rule_table)]
