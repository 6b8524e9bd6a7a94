"""Measures the default stages, on the project's gold set and on any labelled files, and writes the model card.

    python bench/accuracy.py [FILE.jsonl …] [--card docs/reference/model-card.md]

A file holds lines `{"id", "text", "sentiment"}`. Each is measured as it is and stripped of its diacritics.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from opilio.analytics.gold import posts
from opilio.analytics.pipeline import Pipeline
from opilio.analytics.stages.intent import LABELS as INTENTS
from opilio.analytics.stages.sentiment import LABELS as SENTIMENTS
from opilio.analytics.words.diacritics import strip

PIPELINE = Pipeline.default()
NOTES = Path(__file__).with_name("model-card.notes.md")


def per_class(pairs, classes):
    """Precision, recall, F1 and number of each class, from (gold, answer) pairs."""
    seen = Counter(pairs)
    figures = {}
    for name in classes:
        right = seen[name, name]
        answered = sum(n for (_, answer), n in seen.items() if answer == name)
        gold = sum(n for (truth, _), n in seen.items() if truth == name)
        precision = right / answered if answered else 0.0
        recall = right / gold if gold else 0.0
        f1 = 2 * right / (answered + gold) if answered + gold else 0.0
        figures[name] = (precision, recall, f1, gold)
    return figures


def measure_file(path, bare):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    texts = [strip(row["text"]) if bare else row["text"] for row in rows]
    answers = PIPELINE.analyse(texts, [None] * len(rows))
    pairs = [
        (row["sentiment"], answer.sentiment.label if answer.sentiment else "none")
        for row, answer in zip(rows, answers, strict=True)
    ]
    felt = [(gold, answer) for gold, answer in pairs if gold != "neutral"]
    decided = [(gold, answer) for gold, answer in felt if answer != "neutral"]
    classes = [name for name in SENTIMENTS if any(gold == name for gold, _ in pairs)]
    figures = per_class(pairs, classes)
    return {
        "rows": len(rows),
        "polar": sum(gold == answer for gold, answer in felt) / len(felt),
        "neutral": 1 - len(decided) / len(felt),
        "decided": sum(gold == answer for gold, answer in decided) / len(decided),
        "accuracy": sum(gold == answer for gold, answer in pairs) / len(pairs),
        "macro": sum(f1 for _, _, f1, _ in figures.values()) / len(figures),
        "classes": {name: f1 for name, (_, _, f1, _) in figures.items()},
    }


def measure_gold(bare):
    gold = posts()
    analyses = PIPELINE.analyse(
        [strip(post.text) if bare else post.text for post in gold], [None] * len(gold)
    )
    words = [
        (strip(word) if bare else word) in {keyword.word for keyword in one.topics.keywords}
        for post, one in zip(gold, analyses, strict=True)
        for word in post.keywords
    ]
    found = [
        (one.aspects[aspect].label, feeling)
        for post, one in zip(gold, analyses, strict=True)
        for aspect, feeling in post.aspects.items()
        if aspect in one.aspects
    ]
    return {
        "posts": len(gold),
        "intent": per_class(
            [(post.intent, one.intent.label) for post, one in zip(gold, analyses, strict=True)], INTENTS
        ),
        "intent_accuracy": sum(p.intent == o.intent.label for p, o in zip(gold, analyses, strict=True))
        / len(gold),
        "keyword_recall": sum(words) / len(words),
        "keywords": len(words),
        "aspect_precision": len(found) / sum(len(one.aspects) for one in analyses),
        "aspect_recall": len(found) / sum(len(post.aspects) for post in gold),
        "aspect_feeling": sum(answer == feeling for answer, feeling in found) / len(found),
        "aspects": aspect_table(gold, analyses),
    }


def aspect_table(gold, analyses):
    names = sorted({aspect for post in gold for aspect in post.aspects})
    table = {}
    for name in names:
        both = sum(name in p.aspects and name in o.aspects for p, o in zip(gold, analyses, strict=True))
        answered = sum(name in one.aspects for one in analyses)
        listed = sum(name in post.aspects for post in gold)
        table[name] = (both / answered if answered else 0.0, both / listed, listed)
    return table


def percent(value):
    return f"{100 * value:.1f}"


def file_section(paths):
    lines = ["## Sentiment", ""]
    if not paths:
        return [*lines, "No labelled file was given.", ""]
    lines += [
        "Accuracy between positive and negative counts a neutral answer as wrong. *Decided* leaves neutral answers out.",
        "",
        "| set | text | rows | pos/neg | neutral answers | decided | accuracy | macro-F1 | F1 of each class |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for path in paths:
        for bare in (False, True):
            m = measure_file(path, bare)
            classes = ", ".join(f"{name} {percent(f1)}" for name, f1 in m["classes"].items())
            lines.append(
                f"| {path.stem} | {'stripped' if bare else 'as written'} | {m['rows']} | {percent(m['polar'])} "
                f"| {percent(m['neutral'])} | {percent(m['decided'])} | {percent(m['accuracy'])} "
                f"| {percent(m['macro'])} | {classes} |"
            )
    return [*lines, ""]


def gold_section():
    written, bare = measure_gold(bare=False), measure_gold(bare=True)
    lines = [
        "## Intent, keywords and aspects",
        "",
        f"On the project's gold set of {written['posts']} posts (`src/opilio/analytics/gold/`).",
        "",
        "| | as written | stripped |",
        "|---|---|---|",
    ]
    for title, key in (
        ("intent accuracy", "intent_accuracy"),
        (f"keyword recall ({written['keywords']} keywords)", "keyword_recall"),
        ("aspect precision", "aspect_precision"),
        ("aspect recall", "aspect_recall"),
        ("sentiment of an aspect that was found", "aspect_feeling"),
    ):
        lines.append(f"| {title} | {percent(written[key])} | {percent(bare[key])} |")
    lines += ["", "| intent | precision | recall | F1 | posts |", "|---|---|---|---|---|"]
    for name, (precision, recall, f1, count) in written["intent"].items():
        lines.append(f"| {name} | {percent(precision)} | {percent(recall)} | {percent(f1)} | {count} |")
    lines += ["", "| aspect | precision | recall | posts |", "|---|---|---|---|"]
    for name, (precision, recall, count) in written["aspects"].items():
        lines.append(f"| {name} | {percent(precision)} | {percent(recall)} | {count} |")
    return [*lines, ""]


def main():
    parser = argparse.ArgumentParser(description="Measures the default stages.")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--card", type=Path, help="write the model card here")
    options = parser.parse_args()
    figures = [f"Models: `{PIPELINE.version}`.", "", *file_section(options.files), *gold_section()]
    text = "\n".join(figures)
    if options.card:
        options.card.write_text(
            NOTES.read_text(encoding="utf-8").replace("{figures}", text), encoding="utf-8"
        )
    else:
        print(text)


if __name__ == "__main__":
    main()
