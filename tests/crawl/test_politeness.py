"""How often and how widely a host may be visited."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.crawl.politeness import HostState, Limits, allowance, cool_down, next_visit, reopens_at

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG_AGO = datetime.min.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)


def host(
    *,
    cap: int | None = None,
    delay: float | None = None,
    held: int = 0,
    next_at: datetime = LONG_AGO,
    cooling: datetime = LONG_AGO,
) -> HostState:
    return HostState(Limits(cap, delay), next_at, cooling, held)


MOMENTS = st.one_of(
    st.just(LONG_AGO), st.datetimes(datetime(2026, 2, 1), datetime(2026, 4, 1), timezones=st.just(UTC))
)
HOSTS = st.builds(
    host,
    cap=st.one_of(st.none(), st.integers(1, 50)),
    delay=st.one_of(st.none(), st.floats(0, 3600)),
    held=st.integers(0, 100),
    next_at=MOMENTS,
    cooling=MOMENTS,
)


def test_without_limits_a_bot_takes_what_it_wants() -> None:
    assert allowance(host(held=1000), NOW, 10) == 10


def test_the_cap_counts_what_is_held() -> None:
    assert [allowance(host(cap=3, held=held), NOW, 10) for held in range(5)] == [3, 2, 1, 0, 0]


def test_a_delay_hands_out_one_at_a_time() -> None:
    assert allowance(host(delay=5), NOW, 10) == 1
    assert allowance(host(delay=5, next_at=NOW), NOW, 10) == 1
    assert allowance(host(delay=5, next_at=NOW + SECOND), NOW, 10) == 0


def test_a_delay_of_zero_is_none() -> None:
    assert allowance(host(delay=0, next_at=NOW + SECOND), NOW, 10) == 10
    assert not Limits(None, 0).any


def test_no_job_of_a_cooling_host_is_handed_out() -> None:
    assert allowance(host(cooling=NOW + SECOND), NOW, 10) == 0
    assert allowance(host(cooling=NOW), NOW, 10) == 10


@given(HOSTS, st.integers(0, 100))
def test_an_allowance_never_breaks_a_limit(state: HostState, wanted: int) -> None:
    taken = allowance(state, NOW, wanted)
    assert 0 <= taken <= wanted
    if taken:
        assert state.cooling_until <= NOW
        assert state.limits.max_concurrent is None or state.held + taken <= state.limits.max_concurrent
        if state.limits.min_delay_seconds:
            assert taken == 1
            assert next_visit(state, NOW, taken) - NOW == timedelta(seconds=state.limits.min_delay_seconds)


@given(HOSTS)
def test_a_gate_opens_when_a_visit_could_succeed_and_not_before(state: HostState) -> None:
    opens = reopens_at(state, NOW, 0)
    at_cap = state.limits.max_concurrent is not None and state.held >= state.limits.max_concurrent
    if opens > NOW and not at_cap:
        just_before = opens - timedelta(microseconds=1)
        assert allowance(state, just_before, 1) == 0, "a gate that is closed keeps nobody from a job"
    if not at_cap:
        assert allowance(state, opens, 1) == 1, "a gate that is open lets somebody in"


def test_overrides_win_over_the_fleet() -> None:
    fleet = Limits(5, 2.0)
    assert Limits().over(fleet) == fleet
    assert Limits(1, None).over(fleet) == Limits(1, 2.0)
    assert Limits(None, 0.0).over(fleet) == Limits(5, 0.0)


def test_a_first_429_cools_for_a_minute_then_longer() -> None:
    until, strikes, waits = LONG_AGO, 0, []
    now = NOW
    for _ in range(8):
        cooling = cool_down(now, until, strikes, None)
        waits.append((cooling.until - now).total_seconds() / 60)
        until, strikes, now = cooling.until, cooling.strikes, cooling.until
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_strikes_are_forgiven_in_time() -> None:
    cooling = cool_down(NOW, NOW - timedelta(minutes=31), 5, None)
    assert (cooling.until, cooling.strikes) == (NOW + timedelta(minutes=1), 1)


def test_a_host_gets_the_time_it_asked_for() -> None:
    assert cool_down(NOW, LONG_AGO, 0, 7).until == NOW + timedelta(seconds=7)
    assert cool_down(NOW, LONG_AGO, 0, 1e300).until == NOW + timedelta(days=1)


@given(MOMENTS, st.integers(0, 30), st.one_of(st.none(), st.floats(0, 1e308)))
def test_a_cooling_never_ends_earlier_for_a_second_429(
    until: datetime, strikes: int, retry_after: float | None
) -> None:
    cooling = cool_down(NOW, until, strikes, retry_after)
    assert cooling.until >= max(NOW, until)
    assert cooling.until <= max(until, NOW + timedelta(days=1))
    assert 1 <= cooling.strikes <= 30


@pytest.mark.parametrize("limits", [Limits(1, None), Limits(None, 0.5), Limits(2, 3)])
def test_limits_are_limits(limits: Limits) -> None:
    assert limits.any
