"""Vietnamese or English: marked letters first, then the small words that each cannot do without."""

from collections.abc import Sequence

from opilio.analytics.words.diacritics import strip
from opilio.analytics.words.files import entries, read_text

_WORDS = {
    language: frozenset(entry.text for entry in entries("languages.txt", " ") if entry.section == language)
    for language in ("en", "vi", "shared")
}
_LISTED = frozenset(strip(word) for word in read_text("stopwords.txt").split("\nthe a an ")[0].split())
_ENGLISH = _WORDS["en"] - _WORDS["shared"]
# Those with marks need no list: no English word has any.
_PLAIN_VIETNAMESE = frozenset(filter(str.isascii, _WORDS["vi"] - _WORDS["shared"]))
_MAYBE_VIETNAMESE = _LISTED - _WORDS["en"] - _WORDS["shared"]


def language_of(words: Sequence[str], marked: int) -> tuple[str, bool]:
    """The language of a text by its words, and whether another is mixed in."""
    if not words:
        return "und", False
    english = float(sum(map(_ENGLISH.__contains__, words)))
    ascii_words = sum(map(str.isascii, words))
    vietnamese = float(len(words) - ascii_words + sum(map(_PLAIN_VIETNAMESE.__contains__, words)))
    if marked == 0:
        vietnamese += sum(map(_MAYBE_VIETNAMESE.__contains__, words)) / 2
    if english == vietnamese == 0:
        return _by_shape(words), False
    language = "vi" if vietnamese >= english else "en"
    less, more = sorted((english, vietnamese))
    return language, less >= 2 and less * 4 >= more


def _by_shape(words: Sequence[str]) -> str:
    """Without any small word: syllables of Vietnamese are short, words of English are not."""
    if not all(word.isascii() for word in words):
        return "vi" if any(word != strip(word) for word in words) else "und"
    return "en" if sum(map(len, words)) / len(words) > 4.5 else "vi"
