"""What the analytics API answers. Intents and aspects are plain text: a user's own stages may find others."""

from datetime import datetime
from typing import Any, Literal

import msgspec

SentimentLabel = Literal["negative", "neutral", "positive"]
RiskLevel = Literal["low", "medium", "high", "critical"]
KeywordRole = Literal["brand", "competitor"]


class AspectSentiment(msgspec.Struct, kw_only=True):
    """The sentiment of a post about one aspect, and the words that mention it."""

    sentiment: str
    score: float | None = None
    mentions: list[str] = []


class ImpactReason(msgspec.Struct, kw_only=True):
    """A factor of the impact score, with its points."""

    factor: str
    points: float
    text: str


class Post(msgspec.Struct, kw_only=True):
    """A post with its analysis; where crawling failed, `error_code` says why and the rest may be empty."""

    id: str
    platform: str
    job_id: str | None
    task_type: str | None
    keyword_source: str | None
    keyword_role: KeywordRole | None
    brand_name: str | None
    at: datetime
    published_at: datetime | None
    crawled_at: datetime | None
    permalink: str | None
    content_text: str | None
    hashtags: list[str]
    author_name: str | None
    author_username: str | None
    author_is_verified: bool | None
    follower_count: int
    view_count: int
    like_count: int
    comment_count: int
    share_count: int
    save_count: int
    language: str | None
    flags: list[str]
    keywords: list[str]
    intent: str | None
    intent_confidence: float | None
    sentiment: SentimentLabel | None
    sentiment_score: float | None
    aspects: dict[str, AspectSentiment]
    impact_score: float | None
    risk_level: RiskLevel | None
    impact_breakdown: list[ImpactReason]
    fetch_status: Literal["success", "error"]
    error_code: str | None
    fetch_error: str | None


class PostComment(msgspec.Struct, kw_only=True):
    """A comment under a post; its sentiment is null in a language that the model does not know."""

    comment_id: str
    text: str
    author_name: str | None
    likes: int
    sentiment: SentimentLabel | None
    sentiment_score: float | None
    commented_at: datetime | None


class TrendPoint(msgspec.Struct, kw_only=True):
    """Volume and sentiment of one hour, day, week or month."""

    at: datetime
    posts: int
    negative: int
    neutral: int
    positive: int
    sentiment_score: float | None
    impact_score: float | None
    views: int
    interactions: int


class KeywordFigures(msgspec.Struct, kw_only=True):
    """How many posts have a keyword, their sentiment, and the highest impact that one of them has had."""

    keyword: str
    posts: int
    negative: int
    positive: int
    sentiment_score: float | None
    top_impact: float | None


class ErrorFigures(msgspec.Struct, kw_only=True):
    """How often an error occurred while crawling."""

    error_category: str
    error_code: str
    errors: int
    posts: int
    first_at: datetime
    last_at: datetime


class CrawlError(msgspec.Struct, kw_only=True):
    """One item that could not be crawled or read."""

    id: int
    content_id: str
    job_id: str
    platform: str
    error_code: str
    error_category: str
    error_message: str | None
    error_details: Any
    permalink: str | None
    created_at: datetime


class Voice(msgspec.Struct, kw_only=True):
    """The posts about the brand or a competitor, and their share."""

    role: Literal["brand", "competitor", "other"]
    keyword: str | None
    posts: int
    views: int
    interactions: int
    negative: int
    positive: int
    sentiment_score: float | None
    share_percent: float
    engagement_percent: float


class Interactions(msgspec.Struct, kw_only=True):
    views: int
    likes: int
    comments: int
    shares: int
    saves: int


class AspectFigures(msgspec.Struct, kw_only=True):
    """How many posts mention an aspect, by their sentiment about it."""

    posts: int
    negative: int
    neutral: int
    positive: int


class AnalyticsSummary(msgspec.Struct, kw_only=True):
    """The figures of a project; for labels, the number of posts with each."""

    project_id: str
    posts: int
    analysed: int
    errors: int
    first_at: datetime | None
    last_at: datetime | None
    sentiment_score: float | None
    impact_score: float | None
    interactions: Interactions
    sentiments: dict[str, int]
    intents: dict[str, int]
    risks: dict[str, int]
    platforms: dict[str, int]
    languages: dict[str, int]
    comment_sentiments: dict[str, int]
    aspects: dict[str, AspectFigures]
    share_of_voice: list[Voice]
    top_keywords: list[KeywordFigures]
    top_posts: list[Post]
    errors_by_code: list[ErrorFigures]


class AnalysedProject(msgspec.Struct, kw_only=True):
    """A project that has posts."""

    project_id: str
    posts: int
    last_at: datetime | None
