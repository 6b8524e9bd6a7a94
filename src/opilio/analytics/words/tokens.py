"""Cuts a post into tokens: words, emoji, emoticons, marks, and stand-ins for links, numbers and prices."""

import re
import unicodedata
from functools import lru_cache

from opilio.analytics.words.diacritics import CAPITAL, SMALL, settle_tones, strip
from opilio.analytics.words.files import entries, lines_of, read_text

URL, PHONE, PRICE, NUMBER, MENTION = "<url>", "<phone>", "<price>", "<number>", "<mention>"
BREAKS = frozenset(".,;!?")

_EMOJI = (
    "\U0001f300-\U0001faff\U0001f1e6-\U0001f1ff\u2600-\u27bf\u2b50\u2b55\u2764\u2665\u2661\u2763\u263a\u2639"
)
_EMOTICON = r"<3|>:\(|:'\(|[:=;]-?[)(\]dD3*|/<]+(?![\w])|\^_?\^|-[_.]-|=\.=|>\.<|[tT][_.][tT](?!\w)|\(y\)"
_TOKEN = re.compile(
    rf"(?P<url>(?:https?://|www\.)\S+|\b[\w-]{{1,63}}\.(?:com|vn|net|org|shop|io|me)\b(?:/\S*)?)"
    rf"|(?P<mention>@[\w.]+)"
    rf"|\#(?P<hashtag>[^\W_][\w]*)"
    rf"|(?P<score>\b\d{{1,3}}/10\b)"
    rf"|(?P<phone>(?<!\d)(?:\+?84|0)(?:[ .-]?\d){{8,10}}(?!\d))"
    rf"|(?P<price>[$€£]\s?\d[\d.,]{{0,15}}|\d[\d.,]{{0,15}}\s?(?:k|tr|triệu|trieu|nghìn|nghin|ngàn|đồng|vnđ|vnd|usd|₫|đ)\b)"
    rf"|(?P<emoticon>{_EMOTICON})"
    rf"|(?P<word>[^\W\d_]+(?:['\u2019][^\W\d_]+|\d{{1,4}}(?![\d\w]))?)"
    rf"|(?P<number>\d{{1,20}}(?:[.,]\d{{1,20}}){{0,6}})"
    rf"|(?P<emoji>[{_EMOJI}])"
    rf"|(?P<mark>[.,;!?…\n])"
)
_STRETCHED = re.compile(r"(\w)\1{2,}")
# Every repetition is bounded: a post may be a megabyte of one letter.
# "rất kémNhái": two Vietnamese words run together; "VinFast" and "iPhone" have no marks and stay whole.
_GLUED = re.compile(rf"([a-z{SMALL}]{{0,6}}[{SMALL}][a-z{SMALL}]{{0,6}})(?=[A-Z{CAPITAL}][a-z{SMALL}])")
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
    return text if text.isascii() else _GLUED.sub(r"\1 ", unicodedata.normalize("NFKC", text))


def squeeze(word: str) -> str:
    """`đẹppppp` becomes `đẹp` and `quáaaa` becomes `quá`; a stretched word means the same, louder."""
    word = _STRETCHED.sub(r"\1", word)
    if len(word) > 2 and word[-1] == strip(word[-2]) and word[-1] != word[-2]:
        word = word[:-1]
    return word


def tokens_of(text: str) -> tuple[list[str], list[str]]:
    """The tokens of a normalised text in lower case, and its hashtags as they were written."""
    tokens: list[str] = []
    hashtags: list[str] = []
    for match in _TOKEN.finditer(text.lower()):
        kind, piece = match.lastgroup, match.group()
        if kind == "word":
            tokens.extend(_word(piece))
        elif kind == "mark":
            mark = _MARK.get(piece, piece)
            if not tokens or tokens[-1] != mark:
                tokens.append(mark)
        elif kind == "hashtag":
            hashtags.append(match.group("hashtag"))
        elif kind == "emoticon":
            tokens.append(_emoticon(piece))
        elif kind == "emoji":
            tokens.append(piece)
        elif kind == "number":
            tokens.append(piece if len(piece) <= 2 else NUMBER)
        elif kind == "score":
            tokens.append(piece)
        else:
            tokens.append(_STAND_IN[kind or "url"])
    return tokens, hashtags


@lru_cache(maxsize=50_000)
def _word(piece: str) -> tuple[str, ...]:
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
