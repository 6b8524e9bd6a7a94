import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.collector.config import Config
from opilio.collector.plan import plan_project, plan_request
from opilio.collector.platforms import PLATFORMS, Search, Strategy
from opilio.contracts.collector import CrawlRequest
from opilio.contracts.projects import ProjectInput
from opilio.errors import Invalid
from opilio.project_id import extract_project_id
from tests.collector.samples import NOW

project_ids = st.from_regex(r"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,20}[A-Za-z0-9_])?", fullmatch=True)


@pytest.mark.parametrize(
    ("job_id", "project_id"),
    [
        ("proj_xyz-brand-0", "proj_xyz"),
        ("proj123-competitor-12", "proj123"),
        ("my-own-project-brand-3", "my-own-project"),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301-brand-0", "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", None),
        ("3F2504E0-4F89-11D3-9A0C-0305E82C3301", None),
        ("brand-0", None),
        ("proj-brand-x", None),
        ("proj-brand-", None),
        ("proj-brand-²", None),
        ("-brand-0", None),
        ("", None),
    ],
)
def test_the_project_of_a_job(job_id, project_id):
    assert extract_project_id(job_id) == project_id


@given(project_ids, st.sampled_from(["brand", "competitor"]), st.integers(0, 10**6))
def test_the_project_comes_back_out_of_every_job_id(project_id, kind, number):
    assert extract_project_id(f"{project_id}-{kind}-{number}") == project_id


def test_the_example_of_the_contract():
    plan = plan_project(ProjectInput(brand_keywords=["iphone", "samsung"]), "proj123", Config(), NOW)
    assert [(t.platform, t.job_id, t.keywords, t.limit) for t in plan.tasks] == [
        ("tiktok", "proj123-brand-0", ["iphone"], 50),
        ("tiktok", "proj123-brand-1", ["samsung"], 50),
        ("youtube", "proj123-brand-0", ["iphone"], 50),
        ("youtube", "proj123-brand-1", ["samsung"], 50),
    ]
    assert (plan.state.tasks_total, plan.state.items_expected, plan.state.crawl_total) == (4, 200, 4)
    assert plan.state.status == "PENDING"


def test_competitors_by_name_are_numbered_through():
    project = ProjectInput(competitor_keywords={"a": ["x", "y"], "b": ["z"]}, platforms=["youtube"])
    plan = plan_project(project, "p", Config(), NOW)
    assert [(t.job_id, t.keywords) for t in plan.tasks] == [
        ("p-competitor-0", ["x"]),
        ("p-competitor-1", ["y"]),
        ("p-competitor-2", ["z"]),
    ]


@given(
    st.lists(st.text("ab c", min_size=1).filter(str.strip), max_size=5),
    st.lists(st.text("ab c", min_size=1).filter(str.strip), max_size=5),
    st.integers(1, 500),
)
def test_every_keyword_is_a_task_on_every_platform(brand, competitors, limit):
    project = ProjectInput(brand_keywords=brand, competitor_keywords=competitors, limit_per_keyword=limit)
    if not brand + competitors:
        with pytest.raises(Invalid):
            plan_project(project, "p", Config(), NOW)
        return
    plan = plan_project(project, "p", Config(), NOW)
    total = 2 * len(brand + competitors)
    assert len({(t.platform, t.job_id) for t in plan.tasks}) == len(plan.tasks) == total
    assert plan.state.items_expected == total * limit


@pytest.mark.parametrize(
    ("project", "field"),
    [
        (ProjectInput(), "brand_keywords"),
        (ProjectInput(brand_keywords=[" "]), "brand_keywords"),
        (ProjectInput(brand_keywords=["x"], platforms=[]), "platforms"),
        (ProjectInput(brand_keywords=["x"], platforms=["myspace"]), "platforms"),
        (ProjectInput(brand_keywords=["x"] * 6000), "brand_keywords"),
    ],
)
def test_what_makes_no_project_is_refused_by_field(project, field):
    with pytest.raises(Invalid) as refused:
        plan_project(project, "p", Config(), NOW)
    assert refused.value.field == field


def test_a_request_goes_to_every_platform_in_its_own_words():
    request = CrawlRequest(
        job_id="j", task_type="research_keyword", payload={"keywords": ["a", "b"], "limit": 9}, time_range=8
    )
    tiktok, youtube = plan_request(request, Config(), NOW)
    assert (tiktok.keywords, tiktok.limit, tiktok.attempt, tiktok.max_attempts) == (["a", "b"], 9, 1, 3)
    assert (tiktok.payload["publish_time"], tiktok.payload["count"]) == (30, 9)
    assert youtube.payload["published_after"] == "2026-01-07T10:00:00Z"
    assert youtube.emitted_at == NOW


@pytest.mark.parametrize("payload", [{"limit": 0}, {"limit": True}, {"limit": "9"}, {"keywords": [1]}])
def test_a_request_with_a_wrong_payload_is_refused(payload):
    with pytest.raises(Invalid):
        plan_request(CrawlRequest(job_id="j", task_type="crawl_links", payload=payload), Config(), NOW)


def test_a_third_platform_is_one_entry_and_one_mapper():
    def for_threads(search: Search) -> dict:
        return {"q": " OR ".join(search.keywords)}

    strategies = {**PLATFORMS, "threads": Strategy("threads", for_threads)}
    config = Config(strategies=strategies, platforms=("tiktok", "youtube", "threads"))
    plan = plan_project(ProjectInput(brand_keywords=["iphone"]), "p", config, NOW)
    task = plan.tasks[-1]
    assert (task.platform, task.payload, len(plan.tasks)) == ("threads", {"q": "iphone"}, 3)
    strategy = strategies["threads"]
    assert strategy.queue == "crawler.threads.queue"


def test_a_platform_without_a_strategy_is_no_configuration():
    with pytest.raises(ValueError, match="myspace"):
        Config(platforms=("myspace",))
