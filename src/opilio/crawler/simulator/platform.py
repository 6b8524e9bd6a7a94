"""The posts of a simulated platform; equal seed, platform and keyword give equal posts."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from opilio.contracts.codes import ErrorCode
from opilio.crawler.search import Failed, Found, Item, Skipped, Yielded
from opilio.crawler.simulator.phrases import COMMENTS, NAMES, POSTS, TAGS, Language, Mood

_MOODS: tuple[Mood, ...] = ("good", "bad", "flat", "asking")
_WEIGHTS = (45, 25, 20, 10)
_LINKS = {
    "tiktok": "https://www.tiktok.com/@{user}/video/{id}",
    "youtube": "https://www.youtube.com/watch?v={id}",
}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_LIMITED = 0.3  # the share of keywords with few posts on the platform
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Platform:
    """`errors` is the share of posts that cannot be fetched, `repeats` the share that is skipped."""

    name: str
    seed: int = 7
    errors: float = 0.06
    repeats: float = 0.02

    def search(self, keyword: str, limit: int) -> Iterator[Yielded]:
        """Yields the number of posts, then posts, failed items of every code, and repeated ones."""
        chance = random.Random(f"{self.seed}/{self.name}/{keyword}")
        total = self._total(chance)
        yield Found(total=total)
        codes = [code.value for code in ErrorCode]
        chance.shuffle(codes)
        for number in range(min(total, limit)):
            id_ = self._id(chance)
            draw = chance.random()
            if draw < self.errors:
                yield self._failed(id_, codes[number % len(codes)])
            elif draw < self.errors + self.repeats:
                yield Skipped(id=id_)
            else:
                yield self._item(chance, id_, keyword)

    def fetch(self, content_ids: Iterable[str]) -> Iterator[Yielded]:
        """Posts by their ids: what failed in a search can be fetched now."""
        for id_ in content_ids:
            yield self._item(random.Random(f"{self.seed}/{self.name}/{id_}"), id_, "")

    def _total(self, chance: random.Random) -> int:
        if chance.random() < _LIMITED:
            return chance.choice((0, chance.randint(1, 12), chance.randint(13, 45)))
        return chance.randint(60, 2_000)

    def _id(self, chance: random.Random) -> str:
        if self.name == "youtube":
            return "".join(chance.choices(_LETTERS, k=11))
        return str(chance.randint(7 * 10**18, 75 * 10**17))

    def _failed(self, id_: str, code: str) -> Failed:
        return Failed(
            id=id_,
            code=code,
            message=f"the platform answered: {code.replace('_', ' ').lower()}",
            details={"http_status": 429 if code == ErrorCode.RATE_LIMITED else 502, "simulated": True},
            permalink=self._link(id_, "unknown"),
        )

    def _item(self, chance: random.Random, id_: str, keyword: str) -> Item:
        language: Language = chance.choices(("vi", "en"), (70, 30))[0]
        mood = chance.choices(_MOODS, _WEIGHTS)[0]
        author = self._author(chance, language)
        views = int(chance.lognormvariate(8, 1.6)) + 10
        comments = [self._comment(chance, language, mood, n) for n in range(chance.randint(0, 6))]
        text = chance.choice(POSTS[language][mood]).format(k=keyword)
        tags = [*chance.sample(TAGS[language], 2), keyword.replace(" ", "").lower()]
        published = _EPOCH + timedelta(minutes=chance.randint(0, 60 * 24 * 60))
        return Item(
            id=id_,
            content={
                "text": f"{text} {' '.join('#' + tag for tag in tags)}",
                "hashtags": tags,
                "duration": chance.randint(9, 180),
                "media_type": "video",
            },
            interaction={
                "views": views,
                "likes": int(views * chance.uniform(0.01, 0.12)),
                "comments_count": len(comments) + int(views * chance.uniform(0, 0.01)),
                "shares": int(views * chance.uniform(0, 0.02)),
                "saves": int(views * chance.uniform(0, 0.01)),
            },
            author=author,
            comments=comments,
            meta={
                "published_at": f"{published:%Y-%m-%dT%H:%M:%SZ}",
                "permalink": self._link(id_, author["username"]),
                "lang": language,
                "region": "VN" if language == "vi" else "US",
            },
        )

    def _author(self, chance: random.Random, language: Language) -> dict[str, Any]:
        name = chance.choice(NAMES[language])
        number = chance.randint(1, 999)
        return {
            "id": str(chance.randint(10**17, 10**18)),
            "name": name,
            "username": f"user{number}_{self.name[:2]}",
            "followers": int(chance.lognormvariate(7, 2)),
            "is_verified": chance.random() < 0.05,
        }

    def _comment(self, chance: random.Random, language: Language, mood: Mood, number: int) -> dict[str, Any]:
        tone = mood if chance.random() < 0.7 else chance.choice(_MOODS)
        return {
            "id": f"{chance.randint(10**17, 10**18)}{number}",
            "text": chance.choice(COMMENTS[language][tone]),
            "likes": int(chance.lognormvariate(1, 1.2)),
            "author": {"id": str(chance.randint(10**17, 10**18)), "name": chance.choice(NAMES[language])},
        }

    def _link(self, id_: str, user: str) -> str:
        return _LINKS.get(self.name, f"https://{self.name}.example/{{user}}/{{id}}").format(id=id_, user=user)
