"""What the stages hand to each other; structs, because thousands are made in a second."""

from dataclasses import dataclass, field

import msgspec

from opilio.analytics.words.features import grams_of, polarity_features
from opilio.analytics.words.polarity import Polarity
from opilio.contracts.analytics import RiskLevel


@dataclass(slots=True)
class Document:
    """A text made ready: its tokens, its language, and what is odd about it."""

    text: str
    tokens: list[str]
    hashtags: list[str]
    language: str  # vi, en, or und where nothing tells
    bare: bool  # Vietnamese typed without its marks
    flags: tuple[str, ...]
    polarity: Polarity
    _grams: set[str] | None = field(default=None, repr=False, compare=False)
    _signs: dict[str, float] | None = field(default=None, repr=False, compare=False)

    @property
    def grams(self) -> set[str]:
        """Words and pairs of words; several stages look at them, so they are made once."""
        if self._grams is None:
            self._grams = grams_of(self.tokens)
        return self._grams

    @property
    def signs(self) -> dict[str, float]:
        """The dense features of the text's sentiment; not to be changed."""
        if self._signs is None:
            self._signs = polarity_features(self.polarity, self.tokens)
        return self._signs


class Keyword(msgspec.Struct, frozen=True):
    word: str
    score: float


class Mention(msgspec.Struct, frozen=True):
    """A place in a text that speaks of an aspect."""

    aspect: str
    word: str
    at: int


class Topics(msgspec.Struct, frozen=True):
    """What a text is about."""

    keywords: tuple[Keyword, ...]
    mentions: tuple[Mention, ...]


class Intent(msgspec.Struct, frozen=True):
    label: str
    confidence: float
    scores: dict[str, float]


class Sentiment(msgspec.Struct, frozen=True):
    """A sentiment: its label, its score from -1 to 1, and the probability of each label."""

    label: str
    score: float
    probabilities: dict[str, float]


class AspectSentiment(msgspec.Struct, frozen=True):
    label: str
    score: float
    words: tuple[str, ...]


class Figures(msgspec.Struct, frozen=True):
    """What is known of a post beside its text."""

    platform: str = ""
    views: int = 0
    likes: int = 0
    comments: int = 0
    shares: int = 0
    saves: int = 0
    followers: int = 0
    verified: bool = False
    age_hours: float | None = None


class Reason(msgspec.Struct, frozen=True):
    """Why an impact is what it is: a factor, its points, and a sentence."""

    factor: str
    points: float
    text: str


class Impact(msgspec.Struct, frozen=True):
    score: float
    risk: RiskLevel
    reasons: tuple[Reason, ...] = ()
