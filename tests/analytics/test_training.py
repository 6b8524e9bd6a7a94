import re

import pytest

from opilio.analytics.gold import posts
from opilio.analytics.stages.intent import LABELS, DefaultIntent
from opilio.analytics.stages.sentiment import DefaultSentiment
from opilio.analytics.training.__main__ import corpus_version
from opilio.analytics.training.corpus import Generator, written
from opilio.analytics.training.fit import fit
from opilio.analytics.words.diacritics import strip
from opilio.analytics.words.linear import LinearModel, QuickModel, dump, load


def plain(text):
    return re.sub(r"\W+", " ", strip(text).lower()).strip()


def test_the_gold_set_is_large_and_has_every_intent():
    gold = posts()
    assert len({plain(post.text) for post in gold}) == len(gold) >= 1000
    assert {post.intent for post in gold} == set(LABELS)
    assert min(sum(post.intent == label for post in gold) for label in LABELS) >= 50


def test_nothing_of_the_gold_set_is_trained_on():
    generator = Generator(11)
    trained = [*written(), *generator.sentiments(6000), *Generator(11).intents(2000)]
    assert not {plain(example.text) for example in trained} & {plain(post.text) for post in posts()}


def test_the_shipped_weights_come_from_the_shipped_text():
    assert DefaultSentiment().version == DefaultIntent().version == corpus_version()


def test_training_gives_the_same_weights_again():
    samples = [({"a": 1.0, "b": 0.5}, 0, 1.0), ({"b": 1.0}, 1, 1.0), ({"c": 1.0}, 2, 2.0)] * 20
    first, second = (fit(samples, ("x", "y", "z"), version="v") for _ in range(2))
    assert dump(first) == dump(second)
    assert load(dump(first)).probabilities({"c": 1.0})[2] > 0.9


@pytest.mark.parametrize("signs", [{}, {"#s": 1.0}, {"#s": 0.5, "#unknown": 1.0}])
@pytest.mark.parametrize("classes", [3, 4])
def test_the_quick_model_agrees_with_the_plain_one(classes, signs):
    weights = {"x": tuple(map(float, range(classes))), "#s": tuple(1.0 / (n + 1) for n in range(classes))}
    plain_model = LinearModel(tuple("abcd"[:classes]), weights, "v")
    quick = QuickModel(plain_model)
    found = quick.probabilities(quick.known(["x", "y"], english=False), 0.5, signs)
    assert found == pytest.approx(plain_model.probabilities({"x": 0.5, **signs}))


def test_generated_text_is_the_same_for_the_same_seed():
    assert list(Generator(3).sentiments(20)) == list(Generator(3).sentiments(20))
    assert list(Generator(3).sentiments(20)) != list(Generator(4).sentiments(20))
