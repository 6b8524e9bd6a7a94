"""Which analysed batches count."""

from dataclasses import replace

from opilio.collector.batches import choose_counted, fill_shortfall, place, task_of_batch
from tests.collector.samples import a_batch, an_analysis


def counted(batches) -> int:
    return sum(batch.items for batch in batches if batch.counted)


def put(batches, platforms=2, crawl_id=None, project_done=False, **given):
    placed = place(
        batches, an_analysis(**given), platforms=platforms, crawl_id=crawl_id, project_done=project_done
    )
    return batches if placed is None else placed


def test_the_task_of_a_batch():
    assert task_of_batch("p-x-brand-0-analyze-batch-12") == "p-x-brand-0"
    assert task_of_batch("p-x-brand-0-analyze-batch-0f3a") == "p-x-brand-0"
    assert task_of_batch("something else") == "something else"


def test_the_newest_message_replaces_and_a_repetition_changes_nothing():
    batches = put([])
    assert place(batches, an_analysis(), platforms=2, crawl_id=None) is None
    batches = put(batches, success_count=45, digest="again")
    assert counted(batches) == 45
    assert place(batches, an_analysis(), platforms=2, crawl_id=None) is None


def test_batches_of_the_run_whose_result_counts():
    """A crawler stored batches of 50 and 30, crashed, and crawled again: 45 in one batch."""
    batches = put([], crawl_id=None, success_count=50, digest="1")
    batches = put(batches, job_id="proj123-brand-0-analyze-batch-2", success_count=30, digest="2")
    first = [batch for batch in batches if batch.counted]
    assert counted(first) == 80
    runs = [a_batch(crawl_id="old", digests=("1",)), a_batch(crawl_id="old", job_id="b2", success_count=30)]
    runs = put(runs, crawl_id=None, success_count=45, digest="3")
    runs = place(runs, an_analysis(success_count=45, crawl_id="new", digest="4"), platforms=1, crawl_id=None)
    assert counted(choose_counted(runs, "new")) == 45
    assert counted(put(choose_counted(runs, "new"), crawl_id="new", digest="5")) == 45


def test_without_a_platform_the_second_message_of_a_name_waits_until_it_is_needed():
    batches = put([], platform="", message_id="1")
    batches = put(batches, platform="", message_id="1")
    assert len(batches) == 1
    batches = put(batches, platform="", message_id="2")
    batches = put(batches, platform="", message_id="3")  # two platforms: no third batch of one name
    assert (len(batches), counted(batches)) == (2, 50)
    spare = [batch for batch in batches if not batch.counted]
    assert counted(fill_shortfall(spare, {"proj123-brand-0": 50}, 50)) == 50
    assert fill_shortfall(spare, {"proj123-brand-0": 20}, 20) == []


def test_without_a_platform_another_body_replaces_the_first_and_keeps_it():
    batches = put([], platform="", message_id="1")
    batches = put(batches, platform="", message_id="2", success_count=20, digest="other")
    assert counted(batches) == 20
    assert [batch.items for batch in batches if not batch.counted] == [50]


def test_a_batch_that_was_replaced_counts_only_where_its_job_owes_so_many():
    """Analysed twice, 50 and then 45, while 20 of the other platform are on their way: 50 more would be wrong."""
    replaced = a_batch(job_id="proj123-brand-0-analyze-batch-1", platform="", counted=False)
    assert fill_shortfall([replaced], {"proj123-brand-0": 20, "proj123-brand-1": 90}, 110) == []
    assert counted(fill_shortfall([replaced], {"proj123-brand-0": 50}, 110)) == 50
    foreign = replace(
        replaced, job_id="batch 7", task_job_id="batch 7"
    )  # a name that says nothing of its task
    assert counted(fill_shortfall([foreign], {}, 110)) == 50


def test_an_unreadable_batch_of_unknown_size_is_what_its_job_owes():
    unknown = a_batch(success_count=0, size_known=False)
    [filled] = fill_shortfall([unknown], {"proj123-brand-0": 30}, 130)
    assert (filled.error_count, filled.counted) == (30, True)
    assert fill_shortfall([unknown], {}, 130) == []
    named_like_its_task = replace(unknown, job_id="proj123-brand-0", task_job_id="proj123-brand-0")
    [filled] = fill_shortfall([named_like_its_task], {"proj123-brand-0": 30, "proj123-brand-1": 100}, 130)
    assert filled.error_count == 30


def test_after_the_project_is_done_a_batch_is_kept_and_does_not_count():
    batches = put([a_batch(digests=("first",))], project_done=True, success_count=9, digest="late")
    assert counted(batches) == 50
    assert counted(put(batches, project_done=True, job_id="another")) == 50
