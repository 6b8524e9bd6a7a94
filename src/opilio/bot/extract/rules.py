"""The rule_set language: where on a page the values are (docs/reference/rule-set.md). No I/O."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from jsonpath_ng import JSONPath
from jsonpath_ng.exceptions import JSONPathError
from jsonpath_ng.ext import parse as parse_json_path
from parsel.selector import Selector

from opilio.bot.errors import CrawlError
from opilio.bot.extract.document import Document, parsed_json
from opilio.bot.extract.transforms import Transform, compile_transforms
from opilio.contracts.codes import ErrorCode

FIELDS = ("price", "currency", "title", "in_stock")
_MOST_VALUES = 1000
_MOST_TEXT = 2 * 1024 * 1024


class _Spec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One rule as the operator wrote it."""

    css: str | None = None
    xpath: str | None = None
    regex: str | None = None
    json: str | None = None
    value: Any = msgspec.UNSET
    attr: str | None = None
    all: bool = False
    transform: list[Any] | str = msgspec.field(default_factory=list)
    default: Any = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to find a value: a selector, then a regex on what it found, then transforms."""

    name: str
    spec: _Spec
    pattern: re.Pattern[str] | None
    path: JSONPath | None
    transforms: list[Transform]

    def values(self, document: Document) -> list[Any]:
        found = (self._transformed(value, document) for value in self._selected(document))
        # An empty string counts as not found, so that the next rule is tried.
        present = (value for value in found if value is not None and value != "")
        return [value for value, _ in zip(present, range(_MOST_VALUES), strict=False)]

    def _transformed(self, value: Any, document: Document) -> Any:
        for transform in self.transforms:
            if value is None:
                return None
            value = transform(value, document)
        return value

    def _selected(self, document: Document) -> Iterator[Any]:
        if self.spec.value is not msgspec.UNSET:
            yield self.spec.value
        elif self.path is not None:
            yield from self._in_json(document)
        elif self.pattern is not None and self.spec.css is None and self.spec.xpath is None:
            yield from _groups(self.pattern, document.text[:_MOST_TEXT])
        else:
            for text in self._in_tree(document):
                yield from _groups(self.pattern, text[:_MOST_TEXT]) if self.pattern else (text,)

    def _in_tree(self, document: Document) -> Iterator[str]:
        nodes = (
            document.tree.css(self.spec.css)
            if self.spec.css is not None
            else document.tree.xpath(self.spec.xpath or "")
        )
        for node in nodes:
            text = _text(node, self.spec.attr)
            if text is not None:
                yield text

    def _in_json(self, document: Document) -> Iterator[Any]:
        assert self.path is not None
        for data in _json_documents(document, self.spec.css):
            for match in self.path.find(data):
                yield match.value


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Rules for one value, tried in order; the first that finds something wins."""

    name: str
    rules: list[Rule]

    def find(self, document: Document) -> Any:
        for rule in self.rules:
            if values := rule.values(document):
                return values if rule.spec.all else values[0]
        for rule in self.rules:
            if rule.spec.default is not None:
                return rule.spec.default
        if any(rule.spec.required for rule in self.rules):
            raise CrawlError(ErrorCode.PARSE_ERROR, f"rule_set: {self.name} was not found on the page")
        return None


@dataclass(frozen=True, slots=True)
class RuleSet:
    fields: dict[str, Alternatives] = field(default_factory=dict)
    data: dict[str, Alternatives] = field(default_factory=dict)
    auto: bool = True

    def find(self, document: Document) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the values of the fields and of `data`, without those not found."""
        fields = {name: rule.find(document) for name, rule in self.fields.items()}
        data = {name: rule.find(document) for name, rule in self.data.items()}
        return _present(fields), _present(data)


def compile_rules(rule_set: Any) -> RuleSet:
    """Validates and compiles a rule_set; raises a `CrawlError` that names the mistake."""
    if not rule_set:
        return RuleSet()
    if not isinstance(rule_set, dict):
        raise _wrong("it must be an object")
    rules = dict(rule_set)
    auto, data = rules.pop("auto", True), rules.pop("data", {})
    if not isinstance(auto, bool):
        raise _wrong("auto must be true or false")
    if not isinstance(data, dict):
        raise _wrong("data must be an object of rules")
    if unknown := sorted(set(rules) - set(FIELDS)):
        raise _wrong(f"{unknown[0]!r} is not a field; put your own fields under data")
    return RuleSet(
        {name: _alternatives(name, rule) for name, rule in rules.items()},
        {name: _alternatives(f"data.{name}", rule) for name, rule in data.items()},
        auto,
    )


def _alternatives(name: str, written: Any) -> Alternatives:
    rules = written if isinstance(written, list) else [written]
    if not rules:
        raise _wrong(f"{name} has no rule")
    return Alternatives(name, [_rule(name, rule) for rule in rules])


def _rule(name: str, written: Any) -> Rule:
    spec = _spec(name, {"css": written} if isinstance(written, str) else written)
    selectors = [spec.css is not None and spec.json is None, spec.xpath is not None, spec.json is not None]
    if sum(selectors) > 1 or (spec.value is not msgspec.UNSET and any(selectors)):
        raise _wrong(f"{name} needs one of css, xpath, json or value, not several")
    if not any(selectors) and spec.regex is None and spec.value is msgspec.UNSET:
        raise _wrong(f"{name} has no selector: give css, xpath, json, regex or value")
    try:
        _check_selectors(spec)
        pattern = re.compile(spec.regex, re.DOTALL) if spec.regex is not None else None
        path = parse_json_path(spec.json) if spec.json is not None else None
        transforms = compile_transforms(spec.transform)
    except (ValueError, re.error, JSONPathError, SyntaxError) as error:
        raise _wrong(f"{name}: {error}") from error
    return Rule(name, spec, pattern, path, transforms)


def _check_selectors(spec: _Spec) -> None:
    """Raises on a malformed selector, which otherwise looks like one that finds nothing."""
    empty = Selector(text="<html></html>", type="html")
    if spec.css is not None:
        empty.css(spec.css)
    if spec.xpath is not None:
        empty.xpath(spec.xpath)


def _spec(name: str, written: Any) -> _Spec:
    try:
        return msgspec.convert(written, _Spec)
    except msgspec.ValidationError as error:
        raise _wrong(f"{name}: {error}") from error


def _text(node: Selector, attr: str | None) -> str | None:
    """The attribute, or the element's text with its descendants; `::text` and `@href` are already text."""
    if not hasattr(node.root, "attrib"):
        return str(node.root)
    if attr is not None:
        return node.attrib.get(attr)
    return " ".join(" ".join(node.xpath(".//text()[not(parent::script or parent::style)]").getall()).split())


def _groups(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The group named `value`, else the first, else the whole match."""
    for match in pattern.finditer(text):
        if "value" in pattern.groupindex:
            yield match["value"] or ""
        else:
            yield (match[1] if pattern.groups else match[0]) or ""


def _json_documents(document: Document, css: str | None) -> Iterator[Any]:
    """The page itself when it is JSON, else the JSON in the scripts that `css` selects."""
    if document.json is not None and css is None:
        yield document.json
        return
    scripts = document.tree.css(css or 'script[type*="json"]')
    for script in scripts:
        data = parsed_json("".join(script.xpath("text()").getall()))
        if data is not None:
            yield data


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _wrong(message: str) -> CrawlError:
    return CrawlError(ErrorCode.PARSE_ERROR, f"rule_set: {message}")
