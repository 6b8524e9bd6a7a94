"""Preprocessing: normalised text, tokens, language, and flags for noise and spam."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from opilio.analytics.stages.document import Document
from opilio.analytics.words.diacritics import CAPITAL, has_more_marks, strip
from opilio.analytics.words.language import identify, primary
from opilio.analytics.words.polarity import weigh
from opilio.analytics.words.tokens import MENTION, PHONE, URL, normalise, tokens_of

# A few marked letters in a long text are names or loan words; the writer types without marks.
_BARE_SHARE = 0.02
# The limit of an item's text, in characters; a longer one is cut and flagged.
MAX_TEXT = 1 << 20
# Fifty minutes of speech are 10,000; only noise reaches this.
_MAX_TOKENS = 150_000
_MANY_HASHTAGS = 6
_CAPITALS = re.compile(f"[A-Z{CAPITAL}]")


class Preprocessor(Protocol):
    def prepare(self, texts: Sequence[str], languages: Sequence[str | None]) -> list[Document]:
        """One document per text; the given language is used where the text is not enough to tell."""


class DefaultPreprocessor:
    """Unicode, spelling habits, emoji and hashtags; see `words/tokens.py`."""

    version = "preprocess-1"

    def prepare(self, texts: Sequence[str], languages: Sequence[str | None]) -> list[Document]:
        return [self._one(text, known) for text, known in zip(texts, languages, strict=True)]

    def _one(self, raw: str, known: str | None) -> Document:
        text = normalise(raw[:MAX_TEXT])
        tokens, hashtags = tokens_of(text)
        cut = len(tokens) > _MAX_TOKENS
        if cut:
            del tokens[_MAX_TOKENS:]
        found = identify(text)
        language = found.code if found.certain else primary(known) or found.code
        bare = not has_more_marks(text, len(text) * _BARE_SHARE)
        if bare:
            tokens = [token if token.isascii() else strip(token) for token in tokens]
        words = [token for token in tokens if token[0].isalpha()]
        flags = _flags(text, tokens, words, hashtags)
        if cut or len(raw) > MAX_TEXT:
            flags.append("text_cut")
        if found.mixed:
            flags.append("mixed_language")
        if bare and language == "vi":
            flags.append("no_diacritics")
        return Document(text, tokens, hashtags, language, bare, tuple(flags), weigh(tokens, bare=bare))


def _flags(text: str, tokens: list[str], words: list[str], hashtags: list[str]) -> list[str]:
    flags: list[str] = []
    if len(words) < 2:
        flags.append("too_short")
    if URL in tokens:
        flags.append("has_url")
    if PHONE in tokens:
        flags.append("has_phone")
    if MENTION in tokens:
        flags.append("has_mention")
    if len(hashtags) >= _MANY_HASHTAGS or len(hashtags) > len(words):
        flags.append("hashtag_stuffing")
    if len(words) >= 8 and _is_repetitive(words):
        flags.append("repetitive")
    if len(text) >= 20 and len(_CAPITALS.findall(text)) > 0.7 * len(text):
        flags.append("shouting")
    return flags


def _is_repetitive(words: list[str]) -> bool:
    """Whether one word is more than half of the text; counted only where few words differ."""
    half = len(words) / 2
    return len(set(words)) < half + 1 and max(Counter(words).values()) > half
