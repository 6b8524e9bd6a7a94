"""The pipeline of stages, each replaceable by a setting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgspec

from opilio.analytics.stages.document import (
    AspectSentiment,
    Document,
    Figures,
    Impact,
    Intent,
    Sentiment,
    Topics,
)
from opilio.analytics.stages.impact import DefaultImpact, ImpactModel
from opilio.analytics.stages.intent import DefaultIntent, IntentClassifier
from opilio.analytics.stages.keywords import DefaultKeywords, KeywordExtractor
from opilio.analytics.stages.preprocessing import DefaultPreprocessor, Preprocessor
from opilio.analytics.stages.sentiment import DefaultSentiment, SentimentModel
from opilio.errors import Invalid

STAGES = ("preprocessing", "keywords", "intent", "sentiment", "impact")


class Analysis(msgspec.Struct, frozen=True):
    """Results of the text stages for one text; `sentiment` is None in a language that the model does not know."""

    document: Document
    topics: Topics
    intent: Intent
    sentiment: Sentiment | None
    aspects: dict[str, AspectSentiment]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Five stages; text goes through the first four, the figures of a post through the last."""

    preprocessing: Preprocessor
    keywords: KeywordExtractor
    intent: IntentClassifier
    sentiment: SentimentModel
    impact: ImpactModel

    @classmethod
    def default(cls) -> "Pipeline":
        return cls(
            DefaultPreprocessor(), DefaultKeywords(), DefaultIntent(), DefaultSentiment(), DefaultImpact()
        )

    @property
    def version(self) -> str:
        """Versions of all stages, stored with each row."""
        return "+".join(
            dict.fromkeys(str(getattr(getattr(self, f.name), "version", "?")) for f in fields(self))
        )

    def analyse(self, texts: Sequence[str], languages: Sequence[str | None]) -> list[Analysis]:
        documents = self.preprocessing.prepare(texts, languages)
        topics = self.keywords.extract(documents)
        intents = self.intent.classify(documents)
        sentiments = self._sentiments(documents)
        return [
            Analysis(document, topic, intent, sentiment, self._aspects(document, topic, sentiment))
            for document, topic, intent, sentiment in zip(documents, topics, intents, sentiments, strict=True)
        ]

    def sentiments(self, texts: Sequence[str], languages: Sequence[str | None]) -> list[Sentiment | None]:
        """Sentiment alone, for comments."""
        return self._sentiments(self.preprocessing.prepare(texts, languages))

    def impacts(self, posts: Sequence[tuple[Figures, Sentiment | None, Intent]]) -> list[Impact]:
        return self.impact.assess(posts)

    def _sentiments(self, documents: Sequence[Document]) -> list[Sentiment | None]:
        """Scores the texts in languages that the model knows; a model that declares none is given all."""
        known = getattr(self.sentiment, "languages", None)
        scored = [document for document in documents if known is None or document.language in known]
        found = iter(self.sentiment.score(scored) if scored else ())
        return [
            next(found) if known is None or document.language in known else None for document in documents
        ]

    def _aspects(
        self, document: Document, topics: Topics, sentiment: Sentiment | None
    ) -> dict[str, AspectSentiment]:
        if sentiment is None or not topics.mentions:
            return {}
        return self.sentiment.score_aspects(document, topics.mentions, sentiment)


def load_pipeline(stages: Mapping[str, str]) -> Pipeline:
    """The default stages, except those that a setting replaces.

    `{"sentiment": "my_package.models:PhoBert"}` is a class, `{"sentiment": "http://gpu:8080/score"}` an endpoint.
    """
    unknown = stages.keys() - set(STAGES)
    if unknown:
        raise Invalid(
            "analytics_stages",
            f"no stage is named {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}",
        )
    return _load(tuple(sorted(stages.items())))


@lru_cache(maxsize=4)
def _load(stages: tuple[tuple[str, str], ...]) -> Pipeline:
    default = Pipeline.default()
    chosen = {name: _made(name, path) for name, path in stages}
    return Pipeline(**{name: chosen.get(name, getattr(default, name)) for name in STAGES})


def _made(stage: str, path: str) -> Any:
    if path.startswith(("http://", "https://")):
        # By name, because the pipeline itself does no I/O and is held to that.
        remote = import_module("opilio.analytics.remote").STAGES
        if stage not in remote:
            raise Invalid("analytics_stages", f"{stage}: only {', '.join(remote)} can be an endpoint")
        return remote[stage](path)
    module, _, name = path.partition(":")
    try:
        return getattr(import_module(module), name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise Invalid(
            "analytics_stages", f"{stage}: {path!r} cannot be loaded ({error}); write package.module:Class"
        ) from error
