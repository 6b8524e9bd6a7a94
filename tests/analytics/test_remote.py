"""A model of somebody's own behind HTTP: asked for whole batches, waited for when it is away."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from opilio.analytics.pipeline import load_pipeline
from opilio.analytics.processing import BatchProcessor, Done, ProcessingOptions, RetryLater
from opilio.errors import Invalid
from tests.analytics.batches import body, event, post


class Model:
    """An HTTP server that answers what the test wants, and keeps what it was asked."""

    def __init__(self):
        model = self
        self.asked = []
        self.answer = lambda texts: (200, {"results": [{"label": "negative", "score": -0.5} for _ in texts]})

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                texts = json.loads(self.rfile.read(int(self.headers["content-length"])))["texts"]
                model.asked.append(texts)
                status, said = model.answer(texts)
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/score"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def model():
    model = Model()
    yield model
    model.close()


def processor_with(store, buckets, **stages):
    return BatchProcessor(store, buckets, ProcessingOptions(stages=stages))


async def test_it_is_asked_for_whole_batches(store, buckets, rows, model):
    await buckets.put("r", "1.json", body(*(post(str(n), f"bài {n}") for n in range(150))))
    outcome = await processor_with(store, buckets, sentiment=model.url).process(event("r/1.json"))
    assert isinstance(outcome, Done)
    assert [len(texts) for texts in model.asked] == [64, 64, 22]
    assert model.asked[0][0] == {"text": "bài 0", "language": "vi"}
    found = await rows("select sentiment, sentiment_score, model_version from post_analytics")
    assert {(row["sentiment"], row["sentiment_score"]) for row in found} == {("negative", -0.5)}
    assert model.url in found[0]["model_version"]


async def test_the_intent_too(store, buckets, rows, model):
    model.answer = lambda texts: (200, {"results": [{"label": "churn", "confidence": 0.9} for _ in texts]})
    await buckets.put("r", "1.json", body(post("1")))
    await processor_with(store, buckets, intent=model.url).process(event("r/1.json"))
    assert (await rows("select intent from post_analytics"))[0]["intent"] == "churn"


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_while_it_is_away_the_batch_waits(store, buckets, rows, model, status):
    good = model.answer
    model.answer = lambda _: (status, {})
    await buckets.put("r", "1.json", body(post("1"), post("2")))
    processor = processor_with(store, buckets, sentiment=model.url)
    assert isinstance(await processor.process(event("r/1.json"), retries=30), RetryLater)
    assert await rows("select * from post_analytics") == []
    model.answer = good
    assert isinstance(await processor.process(event("r/1.json")), Done)


async def test_a_closed_port_is_waited_for(store, buckets, model):
    await buckets.put("r", "1.json", body(post("1")))
    processor = processor_with(store, buckets, sentiment=model.url)
    await asyncio.to_thread(model.close)
    outcome = await processor.process(event("r/1.json"))
    assert isinstance(outcome, RetryLater)
    assert "does not answer" in outcome.reason
    model.close = lambda: None


@pytest.mark.parametrize("said", [{"results": []}, {"results": [{"label": "angry"}]}, {"what": 1}, []])
async def test_a_malformed_model_answer_affects_only_its_texts(store, buckets, model, said):
    good = model.answer

    def answer(texts):
        return (200, said) if any("boom" in text["text"] for text in texts) else good(texts)

    model.answer = answer
    await buckets.put("r", "1.json", body(post("1"), post("2", "boom"), post("3")))
    outcome = await processor_with(store, buckets, sentiment=model.url).process(event("r/1.json"))
    assert (outcome.rows.counts.succeeded, outcome.rows.errors_by_code) == (2, {"INTERNAL_ERROR": 1})


def test_other_stages_are_no_endpoints():
    with pytest.raises(Invalid, match="only sentiment, intent"):
        load_pipeline({"keywords": "http://localhost/x"})
