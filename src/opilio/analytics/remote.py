"""Models behind an HTTP endpoint: `OPILIO_ANALYTICS_STAGES='{"sentiment": "http://gpu:8080/score"}'`.

The endpoint gets `{"texts": [{"text", "language"}, …]}` and answers `{"results": […]}`, one for each text in the same
order: `{"label", "score"?, "probabilities"?}` for sentiment, `{"label", "confidence"?, "scores"?}` for intent. The texts
of a batch go together, 64 at a time. An endpoint that is away is waited for: the batch is tried again later. An answer
that makes no sense costs only the texts that it was for.
"""

from collections.abc import Sequence
from typing import Any, Generic, Literal, TypeVar

import httpx2
import msgspec

from opilio.analytics.stages.document import Document, Intent, Sentiment
from opilio.analytics.stages.sentiment import DefaultSentiment
from opilio.errors import Unavailable

_TOGETHER = 64
_PATIENCE = httpx2.Timeout(30, connect=5)
_LATER = frozenset({408, 425, 429})


class SentimentAnswer(msgspec.Struct):
    label: Literal["negative", "neutral", "positive"]
    score: float | None = None
    probabilities: dict[str, float] = {}


class IntentAnswer(msgspec.Struct):
    label: str
    confidence: float = 1.0
    scores: dict[str, float] = {}


A = TypeVar("A", SentimentAnswer, IntentAnswer)


class Endpoint(Generic[A]):
    """One model's address; the connection is kept."""

    def __init__(self, url: str, kind: type[A]) -> None:
        self._url = url
        self._http = httpx2.Client(timeout=_PATIENCE)
        self._decoder: msgspec.json.Decoder[dict[str, list[A]]] = msgspec.json.Decoder(dict[str, list[kind]])  # type: ignore[valid-type]

    def ask(self, documents: Sequence[Document]) -> list[A]:
        answers: list[A] = []
        for start in range(0, len(documents), _TOGETHER):
            answers += self._ask(documents[start : start + _TOGETHER])
        return answers

    def _ask(self, documents: Sequence[Document]) -> list[A]:
        texts = [{"text": document.text, "language": document.language} for document in documents]
        results = self._decoder.decode(self._post(msgspec.json.encode({"texts": texts}))).get("results", [])
        if len(results) != len(texts):
            raise ValueError(f"{self._url} gave {len(results)} results for {len(texts)} texts")
        return results

    def _post(self, body: bytes) -> bytes:
        try:
            answer = self._http.post(self._url, content=body, headers={"content-type": "application/json"})
        except httpx2.TransportError as error:
            raise Unavailable(f"the model at {self._url} does not answer: {error!r}") from error
        if answer.status_code >= 500 or answer.status_code in _LATER:
            raise Unavailable(f"the model at {self._url} answered {answer.status_code}")
        if answer.status_code != 200:
            raise ValueError(f"the model at {self._url} answered {answer.status_code}: {answer.text[:200]}")
        return answer.content


class RemoteSentiment(DefaultSentiment):
    """The sentiment of a text from an endpoint; that of its aspects from the clauses that mention them."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._endpoint = Endpoint(url, SentimentAnswer)
        self.version = f"remote-sentiment:{url}"
        self.languages = None  # which languages it knows is the model's affair

    def score(self, documents: Sequence[Document]) -> list[Sentiment]:
        return [_sentiment(answer) for answer in self._endpoint.ask(documents)]


class RemoteIntent:
    def __init__(self, url: str) -> None:
        self._endpoint = Endpoint(url, IntentAnswer)
        self.version = f"remote-intent:{url}"

    def classify(self, documents: Sequence[Document]) -> list[Intent]:
        answers = self._endpoint.ask(documents)
        return [Intent(answer.label[:100], answer.confidence, answer.scores) for answer in answers]


def _sentiment(answer: SentimentAnswer) -> Sentiment:
    """Where only a label is given, it is taken at its word."""
    chances = answer.probabilities or {answer.label: 1.0}
    score = answer.score
    if score is None:
        score = chances.get("positive", 0.0) - chances.get("negative", 0.0)
    return Sentiment(answer.label, round(min(max(score, -1.0), 1.0), 4), chances)


STAGES: dict[str, Any] = {"sentiment": RemoteSentiment, "intent": RemoteIntent}
