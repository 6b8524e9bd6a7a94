"""Cuts a post into tokens: words, emoji, emoticons, marks, and stand-ins for links, numbers and prices."""

import re
import unicodedata
from functools import lru_cache
from itertools import chain, islice, pairwise
from operator import eq

from opilio.analytics.words.diacritics import CAPITAL, SMALL, settle_tones, strip
from opilio.analytics.words.files import entries, lines_of, read_text

URL, PHONE, PRICE, NUMBER, MENTION = "<url>", "<phone>", "<price>", "<number>", "<mention>"
BREAKS = frozenset(".,;!?")

_EMOJI = (
    "\U0001f300-\U0001faff\U0001f1e6-\U0001f1ff\u2600-\u27bf\u2b50\u2b55\u2764\u2665\u2661\u2763\u263a\u2639"
)
_EMOTICON = r"<3|>:\(|:'\(|[:=;]-?[)(\]dD3*|/<]+(?![\w])|\^_?\^|-[_.]-|=\.=|>\.<|[tT][_.][tT](?!\w)|\(y\)"
# What a token may be, in the order in which it is tried; and a sign without which a text has no such token.
_LINK = re.compile(r"://|www\.|\.(?:com|vn|net|org|shop|io|me)\b")
_FACE = re.compile(r"[<>:=;^(]|-[_.]-|t[_.]t")
_DIGIT = re.compile(r"\d")
_SIGNS = (_LINK, _FACE)
# "4K TV" is a screen, not a price of four thousand.
_SCREEN = r"\b[24568]k(?=\s(?:tv|tivi|ti vi|uhd|oled|qled|hdr|monitor|video|camera)\b)"
_UNITS = "k|tr|triệu|trieu|nghìn|nghin|ngàn|đồng|vnđ|vnd|usd|₫|đ"
_KINDS = {
    "url": (r"(?:https?://|www\.)\S+|\b[\w-]{1,63}\.(?:com|vn|net|org|shop|io|me)\b(?:/\S*)?", _LINK),
    "mention": (r"@[\w.]+", None),
    "hashtag": (r"\#[^\W_][\w]*", None),
    "score": (r"\b\d{1,3}/10\b", _DIGIT),
    "phone": (r"(?<!\d)(?:\+?84|0)(?:[ .-]?\d){8,10}(?!\d)", _DIGIT),
    "screen": (_SCREEN, _DIGIT),
    "price": (
        rf"[$€£]\s?\d[\d.,]{{0,15}}(?:\s?(?:k|m|bn|million)\b)?|\d[\d.,]{{0,15}}\s?(?:{_UNITS})\b",
        _DIGIT,
    ),
    "emoticon": (_EMOTICON, _FACE),
    "word": (r"[^\W\d_]+(?:['\u2019][^\W\d_]+|\d{1,4}(?![\d\w]))?", None),
    "number": (r"\d{1,20}(?:[.,]\d{1,20}){0,6}", _DIGIT),
    "emoji": (f"[{_EMOJI}]", None),
    "mark": (r"[.,;!?…\n]", None),
}


@lru_cache(maxsize=4)
def _expressions(signs: tuple[bool, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """For texts with digits and these signs, without and with names: a link in one post must not slow all others."""
    seen = [sign for sign, there in zip(_SIGNS, signs, strict=True) if there]
    kinds = {kind: text for kind, (text, sign) in _KINDS.items() if sign not in _SIGNS or sign in seen}
    named = "|".join(f"(?P<{kind}>{text})" for kind, text in kinds.items())
    return re.compile("|".join(f"(?:{text})" for text in kinds.values())), re.compile(named)


_STRETCHED = re.compile(r"(\w)\1{2,}")
# Every repetition is bounded: a post may be a megabyte of one letter.
# "rất kémNhái": two Vietnamese words run together; "VinFast" and "iPhone" have no marks and stay whole.
_GLUED = re.compile(rf"([a-z{SMALL}]{{0,6}}[{SMALL}][a-z{SMALL}]{{0,6}})(?=[A-Z{CAPITAL}][a-z{SMALL}])")
_GLUE = re.compile(
    rf"[a-z{SMALL}][A-Z{CAPITAL}]"
)  # without it there is nothing glued, and it is quicker to see
_STAND_IN = {"url": URL, "mention": MENTION, "phone": PHONE, "price": PRICE}
_MARK = {"…": ".", "\n": "."}


def _spellings() -> dict[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for line in lines_of(read_text("spelling.txt")):
        meaning, _, spellings = line.partition(" = ")
        table.update({spelling: tuple(meaning.split()) for spelling in spellings.split()})
    return table


SPELLINGS = _spellings()
EMOTICONS = {entry.text: entry.weight for entry in entries("emoji.txt", " ")}


def normalise(text: str) -> str:
    """One form for letters that look alike: styled letters become plain ones, marks are composed."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text)
    return _GLUED.sub(r"\1 ", text) if _GLUE.search(text) else text


def squeeze(word: str) -> str:
    """Shortens stretched words: `đẹppppp` to `đẹp`, `quáaaa` to `quá`."""
    word = _STRETCHED.sub(r"\1", word)
    doubled = len(word) > 2 and word[-1] == strip(word[-2]) and word[-1] != word[-2]
    # "hữu", "cứu", "lưu" are not stretched: ưu is a diphthong.
    return word[:-1] if doubled and word[-1] != "u" else word


def tokens_of(text: str) -> tuple[list[str], list[str]]:
    """The tokens of a normalised text in lower case, and its hashtags as they were written."""
    small = text.lower()
    tokens = _with_digits(small) if _DIGIT.search(small) else _without_digits(small)
    hashtags: list[str] = []
    if "#" in small:
        hashtags = [token[1:] for token in tokens if token[0] == "#"]
        tokens = [token for token in tokens if token[0] != "#"]
    return _without_repeated_marks(tokens), hashtags


# Pieces of text and the tokens they make: nearly all that people write was written before. A hashtag is kept with its
# sign. Long pieces are not kept: a post may be a megabyte of one letter.
_READ: dict[str, tuple[str, ...]] = {}
_MOST_READ, _LONGEST_WORD, _LONGEST_OTHER = 50_000, 40, 8


def _without_digits(small: str) -> list[str]:
    """Only tokens with digits reach over a space ("0912 345 678"), so each piece between spaces is cut by itself."""
    pieces = small.replace("\n", " . ").split()
    try:
        return list(chain.from_iterable(map(_READ.__getitem__, pieces)))
    except KeyError:
        return [token for piece in pieces for token in _READ.get(piece) or _cut(piece)]


def _cut(piece: str) -> tuple[str, ...]:
    _, named = _expressions((True, True))
    made = tuple(
        token for match in named.finditer(piece) for token in _tokens(str(match.lastgroup), match.group())
    )
    if len(piece) <= _LONGEST_WORD:
        _keep(piece, made)
    return made


def _with_digits(small: str) -> list[str]:
    quick, named = _expressions(tuple([sign.search(small) is not None for sign in _SIGNS]))
    try:
        return list(chain.from_iterable(map(_READ.__getitem__, quick.findall(small))))
    except KeyError:
        return _read(named, small)


def _read(expression: re.Pattern[str], small: str) -> list[str]:
    tokens: list[str] = []
    for match in expression.finditer(small):
        kind, piece = str(match.lastgroup), match.group()
        made = _READ.get(piece) or _tokens(kind, piece)
        tokens += made
        # Digits in a row are a phone number or not by what stands around them: the short ones never are.
        if len(piece) <= (_LONGEST_WORD if kind in {"word", "hashtag"} else _LONGEST_OTHER):
            _keep(piece, made)
    return tokens


def _keep(piece: str, made: tuple[str, ...]) -> None:
    if len(_READ) >= _MOST_READ:
        _READ.clear()
    _READ[piece] = made


def _tokens(kind: str, piece: str) -> tuple[str, ...]:
    if kind == "word":
        return _spelled(piece)
    if kind == "emoticon":
        return (_emoticon(piece),)
    if kind == "number":
        return (piece if len(piece) <= 2 else NUMBER,)
    if kind == "mark":
        return (_MARK.get(piece, piece),)
    return (_STAND_IN.get(kind, piece),)


def _without_repeated_marks(tokens: list[str]) -> list[str]:
    if not any(map(eq, tokens, islice(tokens, 1, None))):
        return tokens
    places = [at for at, token in enumerate(tokens) if token in BREAKS]
    repeated = {at for before, at in pairwise(places) if at == before + 1 and tokens[at] == tokens[before]}
    return [token for at, token in enumerate(tokens) if at not in repeated] if repeated else tokens


def _spelled(piece: str) -> tuple[str, ...]:
    piece = piece.replace("\u2019", "'")
    if piece in SPELLINGS:
        return SPELLINGS[piece]
    if piece.isascii() and not _STRETCHED.search(piece):
        return (piece,)
    word = settle_tones(squeeze(piece))
    return SPELLINGS.get(word, (word,))


def _emoticon(piece: str) -> str:
    if piece in EMOTICONS:
        return piece
    return ":)" if ")" in piece or "d" in piece or "]" in piece else ":("
