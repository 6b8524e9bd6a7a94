"""Decodes JSON into structs, naming the field that is wrong."""

import re
from typing import TypeVar

import msgspec

from opilio.bounded_json import exact_number
from opilio.errors import Invalid
from opilio.validation import plain_words

T = TypeVar("T")
_PATH = re.compile(r" - at `\$?([^`]*)`$")
_FIELD = re.compile(r"(?:unknown|missing required) field `([^`]*)`")


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Numbers without a type of their own stay exact decimals."""
    return msgspec.json.Decoder(kind, float_hook=exact_number)


def decode(body: bytes, reader: msgspec.json.Decoder[T]) -> T:
    try:
        return reader.decode(body)
    except msgspec.ValidationError as error:
        raise named(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid("body", "is not valid JSON: %(why)s", why=error) from None
    except RecursionError:
        raise Invalid("body", "is nested too deeply") from None


def named(error: msgspec.ValidationError) -> Invalid:
    """The message of msgspec, with the field that it speaks of."""
    text = str(error)
    where = _PATH.search(text)
    path = where.group(1).lstrip(".") if where else ""
    field = _FIELD.search(text)
    if field:
        path = f"{path}.{field.group(1)}" if path else field.group(1)
        return Invalid(path, "is not a known field") if "unknown" in text else Invalid(path, "is required")
    template, params = plain_words(_PATH.sub("", text))
    return Invalid(path or "body", template, **params)
