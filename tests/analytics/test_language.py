import pytest

from opilio.analytics.pipeline import Pipeline, load_pipeline
from opilio.analytics.stages.document import Sentiment
from opilio.insights.analytics import AnalyticsInsights
from tests.analytics.batches import body, event, post

pipeline = Pipeline.default()


def analyse(text, lang=None):
    return pipeline.analyse([text], [lang])[0]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("แบตหมดเร็วมาก ผิดหวัง", "th"),
        ("배터리가 너무 빨리 닳아요", "ko"),
        ("质量很好，发货也快", "zh"),
        ("barangnya bagus, pengiriman juga cepat", "id"),
        ("pin tut nhanh qua shop oi", "vi"),
        ("Pin tụt nhanh quá", "vi"),
        ("the battery dies too fast", "en"),
    ],
)
@pytest.mark.parametrize("lang", [None, "vi", "en"])
def test_the_text_decides_where_it_can(text, language, lang):
    assert analyse(text, lang).document.language == language


@pytest.mark.parametrize(
    ("text", "lang", "language"), [("ok", "th", "th"), ("😍😍", "id-ID", "id"), ("😍", "", "und")]
)
def test_meta_lang_decides_where_the_text_cannot(text, lang, language):
    assert analyse(text, lang).document.language == language


def test_other_languages_get_no_sentiment_and_no_alarm():
    analysis = analyse("แบตหมดเร็วมาก ผิดหวังกับบริการ")
    assert analysis.sentiment is None
    assert analysis.aspects == {}
    assert analysis.intent.label == "discussion"


class Multilingual:
    version = "all-1"

    def score(self, documents):
        return [Sentiment("negative", -1.0, {"negative": 1.0}) for _ in documents]

    def score_aspects(self, document, mentions, overall):
        return {}


def test_a_model_that_knows_all_languages_is_given_all():
    own = load_pipeline({"sentiment": "tests.analytics.test_language:Multilingual"})
    assert own.analyse(["ผิดหวังมาก"], [None])[0].sentiment.label == "negative"


async def test_such_posts_are_stored_and_counted(processor, buckets, database, rows):
    items = [
        post("1", "Pin trâu, rất đẹp, hài lòng"),
        post("2", "แบตหมดเร็วมาก ผิดหวัง", comments=[{"text": "แย่มาก"}, {"text": "đẹp quá"}]),
    ]
    await buckets.put("crawl-results", "tiktok/proj_xyz/brand/batch_001.json", body(*items))
    await processor.process(event())
    stored = await rows(
        "select id, language, sentiment, sentiment_score, impact_score from post_analytics order by id"
    )
    assert [(row["language"], row["sentiment"]) for row in stored] == [("vi", "positive"), ("th", None)]
    assert stored[1]["impact_score"] > 0
    comments = await rows("select sentiment from post_comments order by sentiment nulls first")
    assert [row["sentiment"] for row in comments] == [None, "positive"]
    summary = await AnalyticsInsights(database).summary("proj_xyz")
    assert (summary.analysed, summary.languages) == (2, {"vi": 1, "th": 1})
    assert (summary.sentiments, summary.comment_sentiments) == ({"positive": 1}, {"positive": 1})
    assert summary.sentiment_score == pytest.approx(0.9, abs=0.15)
