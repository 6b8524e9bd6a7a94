"""Accuracy on the project's own gold sets: changed tokens, word lists or weights that lose accuracy fail here."""

import pytest

from opilio.analytics.gold import languages, posts, sentiments
from opilio.analytics.pipeline import Pipeline
from opilio.analytics.training.corpus import Generator, written
from opilio.analytics.words.diacritics import strip
from opilio.crawler.simulator.phrases import COMMENTS, POSTS

pipeline = Pipeline.default()
# Measured with these weights, less a margin of about two points (bench/accuracy.py prints the figures).
AS_WRITTEN = {"negative": 0.87, "neutral": 0.86, "positive": 0.88, "intent": 0.85, "aspects": 0.89}
STRIPPED = {"negative": 0.83, "neutral": 0.81, "positive": 0.88, "intent": 0.83, "aspects": 0.85}


def answers(texts, bare):
    return pipeline.analyse([strip(text) if bare else text for text in texts], [None] * len(texts))


def label(analysis):
    return analysis.sentiment.label if analysis.sentiment else None


@pytest.mark.parametrize(("bare", "least"), [(False, AS_WRITTEN), (True, STRIPPED)])
def test_sentiment(bare, least):
    gold = sentiments()
    found = [label(one) for one in answers([text for _, text in gold], bare)]
    for name in ("negative", "neutral", "positive"):
        both = sum(truth == answer == name for (truth, _), answer in zip(gold, found, strict=True))
        f1 = 2 * both / (sum(truth == name for truth, _ in gold) + found.count(name))
        assert f1 >= least[name], name


@pytest.mark.parametrize(("bare", "least"), [(False, AS_WRITTEN), (True, STRIPPED)])
def test_intent_and_aspects(bare, least):
    gold = posts()
    found = answers([post.text for post in gold], bare)
    right = sum(post.intent == one.intent.label for post, one in zip(gold, found, strict=True))
    assert right / len(gold) >= least["intent"]
    polarity = [
        one.aspects[aspect].label == sentiment
        for post, one in zip(gold, found, strict=True)
        for aspect, sentiment in post.aspects.items()
        if aspect in one.aspects
    ]
    assert sum(polarity) / len(polarity) >= least["aspects"]


@pytest.mark.parametrize(("bare", "price", "battery"), [(False, 0.88, 0.92), (True, 0.76, 0.82)])
def test_polarity_of_price_and_battery(bare, price, battery):
    gold = posts()
    found = answers([post.text for post in gold], bare)
    for aspect, least in (("price", price), ("battery", battery)):
        right = [
            one.aspects[aspect].label == post.aspects[aspect]
            for post, one in zip(gold, found, strict=True)
            if aspect in post.aspects and aspect in one.aspects
        ]
        assert sum(right) / len(right) >= least, aspect


def test_languages():
    gold = languages()
    found = [one.document.language for one in answers([text for _, text in gold], bare=False)]
    assert len({language for language, _ in gold}) >= 10
    right = sum(language == answer for (language, _), answer in zip(gold, found, strict=True))
    assert right / len(gold) >= 0.94
    # A post in another language must never be given a Vietnamese or English sentiment.
    assert sum(answer in {"vi", "en"} for answer in found) <= 2


@pytest.mark.parametrize("bare", [False, True])
def test_vietnamese_and_english_are_identified_by_the_text(bare):
    texts = [text for _, text in sentiments()]
    found = [one.document.language for one in answers(texts, bare)]
    expected = ["vi" if strip(text) != text else "en" for text in texts]
    close = [answer in {want, "und"} for answer, want in zip(found, expected, strict=True)]
    assert sum(close) / len(close) >= 0.97


def test_nothing_of_the_gold_sets_is_trained_on():
    trained = {strip(example.text).lower() for example in [*written(), *Generator(11).sentiments(6000)]}
    assert not trained & {strip(text).lower() for _, text in sentiments()}


@pytest.mark.parametrize("keyword", ["iphone", "trà đào", "VinFast"])
@pytest.mark.parametrize(
    ("mood", "expected"),
    [("good", "positive"), ("bad", "negative"), ("flat", "neutral"), ("asking", "neutral")],
)
def test_the_posts_of_the_demo_are_read_as_they_are_meant(mood, expected, keyword):
    texts = [text.format(k=keyword) for language in POSTS.values() for text in language[mood]]
    found = dict(zip(texts, map(label, answers(texts, bare=False)), strict=True))
    assert found == dict.fromkeys(texts, expected)


def test_comments_of_the_demo_without_an_opinion_are_neutral():
    texts = [text for language in COMMENTS.values() for text in (*language["flat"], *language["asking"])]
    found = dict(zip(texts, map(label, answers(texts, bare=False)), strict=True))
    assert found == dict.fromkeys(texts, "neutral")
