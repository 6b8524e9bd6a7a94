"""Identifies the language of a text: Vietnamese and English by their words, all others by a library (eld)."""

import re
from functools import lru_cache
from typing import NamedTuple

from eld import LanguageDetector

from opilio.analytics.words.diacritics import has_vietnamese_letters, strip
from opilio.analytics.words.files import entries, read_text

UNKNOWN = "und"
# Sentiment and intent are only defined for these; `und` is a text too short to tell, such as "ok" or an emoji.
ANALYSED = frozenset({"vi", "en", UNKNOWN})

_SAMPLE = 1000  # characters; more do not change the result
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_NOISE = re.compile(r"https?://\S+|www\.\S+|[@#]\w+")
_SYLLABLE = re.compile(
    r"(?:ngh|ng|nh|ch|gh|gi|kh|ph|qu|th|tr|[bcdghklmnpqrstvx])?[aeiouy]{1,3}(?:ch|ng|nh|[cmnpt])?"
)
_LISTED = {
    language: frozenset(entry.text for entry in entries("languages.txt", " ") if entry.section == language)
    for language in ("en", "vi", "shared")
}
_ENGLISH = _LISTED["en"] - _LISTED["shared"]
_VIETNAMESE = _LISTED["vi"] - _LISTED["shared"]
_STOPWORDS = frozenset(read_text("stopwords.txt").split("\nthe a an ")[0].split())
_MARKED_STOPWORDS = frozenset(word for word in _STOPWORDS if not word.isascii())
_MAYBE_VIETNAMESE = frozenset(map(strip, _STOPWORDS)) - _LISTED["en"] - _LISTED["shared"]
# Malay and Indonesian posts cannot be told apart by a line of text.
_SAME = {"ms": "id"}
# For single words that the library has no answer for.
_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("th", re.compile("[\u0e00-\u0e7f]")),
)


class Language(NamedTuple):
    """The language of a text, whether the text itself is enough to tell, and whether another is mixed in."""

    code: str
    certain: bool
    mixed: bool = False


class _Counts(NamedTuple):
    """How many words of each kind a piece of text has."""

    words: int
    ascii: int
    vietnamese_letters: int  # pieces with a letter that no other common language has
    english: int
    vietnamese: int
    vietnamese_or_marked: int
    marked_stopwords: int
    maybe_vietnamese: int
    syllables: int


class _Evidence(NamedTuple):
    """Shares of the words of a text, from 0 to 1."""

    words: int
    vietnamese: float
    english: float
    syllables: float


# The pieces between spaces that were counted before; nearly all come again.
_COUNTED: dict[str, _Counts] = {}
_MOST_COUNTED, _LONGEST_COUNTED = 20_000, 40


def identify(text: str) -> Language:
    """The language of a normalised text."""
    sample = text[:_SAMPLE]
    counts = _counts_of(sample)
    if not counts.words:
        return Language(UNKNOWN, certain=False)
    if counts.vietnamese_letters:
        return _marked(counts)
    return _unmarked(sample, counts) if counts.ascii * 2 >= counts.words else _by_library(sample)


def _counts_of(sample: str) -> _Counts:
    """Neither words nor noise reach over a space, so that the counts of the pieces add up."""
    pieces = sample.split()
    if not pieces:
        return _count("")
    try:
        found = list(map(_COUNTED.__getitem__, pieces))
    except KeyError:
        found = [_COUNTED.get(piece) or _count(piece) for piece in pieces]
    return _Counts._make(map(sum, zip(*found, strict=True)))


def _count(piece: str) -> _Counts:
    clean = _without_noise(piece)
    words = _WORD.findall(clean)
    counts = _Counts(
        words=len(words),
        ascii=sum(map(str.isascii, words)),
        vietnamese_letters=int(has_vietnamese_letters(clean)),
        english=sum(map(_ENGLISH.__contains__, words)),
        vietnamese=sum(map(_VIETNAMESE.__contains__, words)),
        vietnamese_or_marked=sum(1 for word in words if not word.isascii() or word in _VIETNAMESE),
        marked_stopwords=sum(map(_MARKED_STOPWORDS.__contains__, words)),
        maybe_vietnamese=sum(map(_MAYBE_VIETNAMESE.__contains__, words)),
        syllables=sum(1 for word in words if _SYLLABLE.fullmatch(word if word.isascii() else strip(word))),
    )
    if len(piece) <= _LONGEST_COUNTED:
        if len(_COUNTED) >= _MOST_COUNTED:
            _COUNTED.clear()
        _COUNTED[piece] = counts
    return counts


def _without_noise(sample: str) -> str:
    return _NOISE.sub(" ", sample).lower()


def primary(tag: str | None) -> str | None:
    """The language of a tag such as `en-US` or `VI_vn`; None where it names none."""
    code = re.split(r"[-_]", (tag or "").strip().lower())[0]
    return code if re.fullmatch(r"[a-z]{2,3}", code) and code not in {UNKNOWN, "zxx", "mul", "mis"} else None


def _marked(counts: _Counts) -> Language:
    """A text with letters that only Vietnamese has: Vietnamese, unless most of it is English."""
    english, vietnamese = counts.english, counts.vietnamese_or_marked
    less, more = sorted((english, vietnamese))
    mixed = less >= 2 and less * 4 >= more
    return Language("vi" if vietnamese >= english else "en", certain=True, mixed=mixed)


def _unmarked(sample: str, counts: _Counts) -> Language:
    """A text in Latin letters without Vietnamese marks: Vietnamese typed without them, English, or another."""
    seen = _evidence(counts)
    if _is_bare_vietnamese(seen):
        return Language("vi", certain=True, mixed=_is_mixed(seen))
    if seen.english >= 0.2 and counts.marked_stopwords:
        return Language("vi", certain=True, mixed=True)
    if seen.english >= 0.5:
        return Language("en", certain=True, mixed=_is_mixed(seen))
    found = _by_library(sample)
    if found.certain or found.code in ANALYSED:
        return found
    if (seen.syllables >= 0.65 and seen.words >= 4) or seen.vietnamese > seen.english:
        return Language("vi", certain=False)
    # Another language, by a guess: a wrong one would cost a Vietnamese or English post its sentiment.
    return Language("en" if seen.english else UNKNOWN, certain=False)


def _is_bare_vietnamese(seen: _Evidence) -> bool:
    """Vietnamese words are single syllables; small words alone do not tell (`la`, `de`, `se` are Spanish too)."""
    if seen.vietnamese < seen.english:
        return False
    return (seen.vietnamese >= 0.3 and seen.syllables >= 0.65) or (
        seen.vietnamese >= 0.1 and seen.syllables >= 0.8 and seen.words >= 4
    )


def _is_mixed(seen: _Evidence) -> bool:
    less, more = sorted((seen.english, seen.vietnamese))
    return less * seen.words >= 2 and less * 4 >= more


def _evidence(counts: _Counts) -> _Evidence:
    vietnamese = counts.vietnamese + counts.marked_stopwords + counts.maybe_vietnamese / 2
    total = counts.words
    return _Evidence(total, vietnamese / total, counts.english / total, counts.syllables / total)


@lru_cache(maxsize=1)
def _detector() -> LanguageDetector:
    return LanguageDetector()


def _by_library(sample: str) -> Language:
    clean = _without_noise(sample)
    found = _detector().detect(clean)
    if found.language:
        return Language(_SAME.get(found.language, found.language), certain=found.is_reliable())
    script = next((code for code, letters in _SCRIPTS if letters.search(clean)), None)
    return Language(script or UNKNOWN, certain=script is not None)
