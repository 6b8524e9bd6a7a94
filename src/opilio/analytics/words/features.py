"""Features of the linear models: dense features of polarity, and the words and word pairs of a text."""

import math
from collections.abc import Sequence, Sized
from itertools import pairwise

from opilio.analytics.words.polarity import Polarity
from opilio.analytics.words.tokens import BREAKS, NUMBER

ENGLISH = "en:"
_NO_WORDS = BREAKS | {NUMBER}
# Words and pairs are taken from the first tokens only; listed words, keywords and aspects from the whole text.
_MOST_GRAMS = 4000


def polarity_features(seen: Polarity, tokens: Sequence[str]) -> dict[str, float]:
    """Dense features, each with a name that starts with `#`."""
    praise, blame = seen.praise, seen.blame
    net, mixture = praise - blame, _mixture(praise, blame)
    features = {
        "#bias": 1.0,
        "#praise": math.log1p(praise),
        "#blame": math.log1p(blame),
        "#net": net / (1 + abs(net)),
        "#balance": net / (praise + blame + 1),
        mixture: 1.0,
    }
    if seen.hits:
        features["#first"] = _sign(seen.hits[0].value)
        features["#last"] = _sign(seen.hits[-1].value)
        negated = [hit for hit in seen.hits if hit.negated]
        features["#negated_praise"] = float(sum(hit.value < 0 for hit in negated))
        features["#negated_blame"] = float(sum(hit.value > 0 for hit in negated))
    if seen.contrasts:
        features["#contrast"] = 1.0
        after = seen.between(seen.last_contrast, len(tokens))
        features["#after_contrast"] = after / (1 + abs(after))
    for name, count in (
        ("#suggestion", seen.suggestions),
        ("#wellwish", seen.wellwishes),
        ("#question", seen.questions),
        ("#dangling_negation", seen.dangling),
    ):
        if count:
            features[name] = float(min(count, 3))
            features[f"{name}{mixture}"] = 1.0
    if "?" in tokens:
        features["#asks"] = 1.0
    if "hơn" in tokens or "hon" in tokens:
        features["#more"] = 1.0
        features[f"#more#suggestion{min(seen.suggestions, 1)}"] = 1.0
    if len(tokens) <= 3:
        features["#short"] = 1.0
    return features


def grams_of(tokens: Sequence[str]) -> set[str]:
    """Words and pairs of words, each once."""
    words = [token for token in tokens[:_MOST_GRAMS] if token not in _NO_WORDS]
    return {*words, *map(" ".join, pairwise(words))}


def gram_share(grams: Sized) -> float:
    """The value of each gram, so that the vector has a fixed length."""
    return 2.0 / math.sqrt(len(grams)) if grams else 0.0


def gram_features(tokens: Sequence[str], language: str) -> dict[str, float]:
    """Grams by the names used in the models.

    English grams have a prefix: `it`, `do`, `so`, `the` are also Vietnamese words without diacritics.
    """
    grams = grams_of(tokens)
    share = gram_share(grams)
    if language == "en":
        return {f"{ENGLISH}{gram}": share for gram in grams}
    return dict.fromkeys(grams, share)


def _mixture(praise: float, blame: float) -> str:
    if praise and blame:
        return "#both"
    return "#praise_only" if praise else "#blame_only" if blame else "#no_feeling"


def _sign(value: float) -> float:
    return 1.0 if value > 0 else -1.0
