"""Vietnamese letters with and without their marks."""

import re
import unicodedata
from itertools import islice

_LETTERS = (
    "àáảãạăằắẳẵặâầấẩẫậèéẻẽẹêềếểễệìíỉĩịòóỏõọôồốổỗộơờớởỡợùúủũụưừứửữựỳýỷỹỵđ"
    "ÀÁẢÃẠĂẰẮẲẴẶÂẦẤẨẪẬÈÉẺẼẸÊỀẾỂỄỆÌÍỈĨỊÒÓỎÕỌÔỒỐỔỖỘƠỜỚỞỠỢÙÚỦŨỤƯỪỨỬỮỰỲÝỶỸỴĐ"
)


def _bare(letter: str) -> str:
    return "d" if letter == "đ" else "D" if letter == "Đ" else unicodedata.normalize("NFD", letter)[0]


_TO_BARE = {ord(letter): _bare(letter) for letter in _LETTERS}
# Ranges such as À-Ỹ hold small letters too, so expressions name the letters.
SMALL, CAPITAL = _LETTERS[: len(_LETTERS) // 2], _LETTERS[len(_LETTERS) // 2 :]
_MARKED = re.compile(f"[{_LETTERS}]")
# Also used by French, Portuguese, Spanish and others, so they do not tell Vietnamese.
_SHARED = "àáâãèéêìíòóôõùúý"
_ONLY_VIETNAMESE = re.compile(f"[{''.join(c for c in _LETTERS if c.lower() not in _SHARED)}]")
# The tone of oa, oe, uy is written on either vowel; one form, so that one entry of a word list is enough.
_MOVED_TONES = {
    vowels[0] + marked_last: marked_first + vowels[1]
    for vowels, firsts, lasts in (
        ("oa", "òóỏõọ", "àáảãạ"),
        ("oe", "òóỏõọ", "èéẻẽẹ"),
        ("uy", "ùúủũụ", "ỳýỷỹỵ"),
    )
    for marked_first, marked_last in zip(firsts, lasts, strict=True)
}


def strip(text: str) -> str:
    """The text as someone types it who leaves the marks out."""
    bare = text.translate(_TO_BARE)
    if bare.isascii():
        return bare
    return "".join(c for c in unicodedata.normalize("NFD", bare) if not unicodedata.combining(c))


def has_more_marks(text: str, than: float) -> bool:
    """Whether more letters than that carry a Vietnamese mark; reads only as far as needed."""
    return not text.isascii() and next(islice(_MARKED.finditer(text), int(than), None), None) is not None


def has_vietnamese_letters(text: str) -> bool:
    """Whether the text has a letter that no other common language uses."""
    return not text.isascii() and _ONLY_VIETNAMESE.search(text) is not None


def settle_tones(word: str) -> str:
    """`hoà` becomes `hòa`, `thuý` becomes `thúy`: at the end of a word the tone goes to the first vowel."""
    moved = _MOVED_TONES.get(word[-2:])
    return word[:-2] + moved if moved and not word.startswith("qu") else word
