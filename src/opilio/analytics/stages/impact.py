"""Impact: a score from 0 to 100 and a risk level for each post, with the reasons."""

import math
from collections.abc import Sequence
from typing import Protocol

from opilio.analytics.stages.document import Figures, Impact, Intent, Reason, Sentiment
from opilio.contracts.analytics import RiskLevel

RISKS: tuple[RiskLevel, ...] = ("low", "medium", "high", "critical")
# Points that each factor can give; together 100.
_REACH, _ENGAGEMENT, _AUTHOR, _SENTIMENT, _VELOCITY = 35.0, 25.0, 15.0, 15.0, 10.0
# Values at which a factor gives all its points.
_FULL_VIEWS, _FULL_FOLLOWERS, _FULL_VIEWS_AN_HOUR = 5_000_000, 5_000_000, 100_000
_FULL_RATE = 0.15  # weighted interactions per view
_LIKE, _COMMENT, _SAVE, _SHARE = 1.0, 2.0, 3.0, 5.0
_LARGE_AUTHOR = 50_000
_ALARMING = {"crisis", "complaint"}


class ImpactModel(Protocol):
    version: str

    def assess(self, posts: Sequence[tuple[Figures, Sentiment | None, Intent]]) -> list[Impact]:
        """The impact of each post."""


class DefaultImpact:
    """Logarithmic scales, so that a viral post does not hide all others."""

    version = "impact-1"

    def assess(self, posts: Sequence[tuple[Figures, Sentiment | None, Intent]]) -> list[Impact]:
        return [_assess(*post) for post in posts]


def _assess(figures: Figures, sentiment: Sentiment | None, intent: Intent) -> Impact:
    if intent.label == "spam":
        return Impact(0.0, "low", (Reason("spam", 0.0, "spam is excluded from impact"),))
    reasons = [
        _reach(figures),
        _engagement(figures),
        _author(figures),
        _sentiment(sentiment),
        _velocity(figures),
    ]
    score = round(min(100.0, sum(reason.points for reason in reasons)), 1)
    risk, why = _risk(score, figures, sentiment, intent)
    kept = [reason for reason in reasons if reason.points > 0]
    return Impact(score, risk, (*kept, Reason("risk", 0.0, why)))


def _scaled(value: float, full: float) -> float:
    return min(1.0, math.log1p(max(value, 0)) / math.log1p(full))


def _reach(figures: Figures) -> Reason:
    """Views, or an estimate from followers where views are not counted."""
    seen = figures.views or figures.followers // 10
    source = "views" if figures.views else "views, estimated from followers"
    return Reason("reach", round(_REACH * _scaled(seen, _FULL_VIEWS), 1), f"{seen:,} {source}")


def _engagement(figures: Figures) -> Reason:
    weighted = (
        _LIKE * figures.likes + _COMMENT * figures.comments + _SAVE * figures.saves + _SHARE * figures.shares
    )
    if not weighted:
        return Reason("engagement", 0.0, "no interactions")
    rate = weighted / max(figures.views, weighted, 1)
    volume = _scaled(weighted, _FULL_VIEWS * _FULL_RATE)
    points = _ENGAGEMENT * (0.6 * volume + 0.4 * min(1.0, rate / _FULL_RATE))
    return Reason(
        "engagement", round(points, 1), f"{weighted:,.0f} weighted interactions, {rate:.1%} of views"
    )


def _author(figures: Figures) -> Reason:
    share = _scaled(figures.followers, _FULL_FOLLOWERS)
    points = _AUTHOR * min(1.0, share * (1.2 if figures.verified else 1.0))
    suffix = ", verified" if figures.verified else ""
    return Reason("author", round(points, 1), f"{figures.followers:,} followers{suffix}")


def _sentiment(sentiment: Sentiment | None) -> Reason:
    """Negative posts spread further than positive ones."""
    if sentiment is None:
        return Reason("sentiment", 0.0, "language without a sentiment model")
    weight = 1.0 if sentiment.score < 0 else 0.6
    return Reason(
        "sentiment",
        round(_SENTIMENT * weight * abs(sentiment.score), 1),
        f"{sentiment.label} {sentiment.score:+.2f}",
    )


def _velocity(figures: Figures) -> Reason:
    if figures.age_hours is None or not figures.views:
        return Reason("velocity", 0.0, "age or views unknown")
    pace = figures.views / max(figures.age_hours, 1.0)
    return Reason(
        "velocity", round(_VELOCITY * _scaled(pace, _FULL_VIEWS_AN_HOUR), 1), f"{pace:,.0f} views an hour"
    )


def _risk(
    score: float, figures: Figures, sentiment: Sentiment | None, intent: Intent
) -> tuple[RiskLevel, str]:
    crisis = intent.label == "crisis"
    label = sentiment.label if sentiment else "no sentiment"
    if label != "negative" and not crisis:
        return "low", f"not negative ({label}, {intent.label})"
    large = figures.verified or figures.followers >= _LARGE_AUTHOR
    steps = sum(
        (score >= 35, score >= 55, large and score >= 45, intent.label in _ALARMING and score >= 30, crisis)
    )
    step = min(max(steps, 1) if crisis else steps, 3)
    return RISKS[step], f"{label} {intent.label}, impact {score:g}{', large author' if large else ''}"
