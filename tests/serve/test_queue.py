"""Who is let in, who waits for how long, and who must come later."""

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.serve.errors import Refusal, refused
from regard.serve.keys import Keys, Rates
from regard.serve.queue import Queue


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_request_gets_places_for_all_of_its_inputs_or_none() -> None:
    queue = Queue(requests=3, items=10)
    one, two = queue.admit(4), queue.admit(5)
    with pytest.raises(Refusal) as refusal:
        queue.admit(2)
    assert refusal.value.status == 503
    assert (queue.requests, queue.items) == (2, 9)
    three = queue.admit(1)
    one.leave(answered=True)
    one.leave(answered=True)
    assert (queue.requests, queue.items) == (2, 6)
    for place in (two, three):
        place.leave(answered=False)
    assert (queue.requests, queue.items, queue.highest) == (0, 0, 3)


def test_the_number_of_requests_is_bounded_too() -> None:
    queue = Queue(requests=2, items=100)
    for _ in range(2):
        queue.admit(1)
    assert queue.full
    with pytest.raises(Refusal):
        queue.admit(1)


def test_what_can_never_fit_is_the_clients_fault() -> None:
    with pytest.raises(Refusal) as refusal:
        Queue(requests=2, items=5).admit(6)
    assert refusal.value.status == 400


def test_the_wait_is_what_is_in_work_at_the_rate_of_late() -> None:
    clock = Clock()
    queue = Queue(requests=100, items=100, clock=clock)
    assert queue.wait() == 1.0
    for _ in range(5):  # 4 inputs a second, for 5 seconds
        place = queue.admit(4)
        clock.now += 1
        place.leave(answered=True)
    queue.admit(20)
    assert queue.rate() == pytest.approx(20 / 4)
    assert queue.wait() == pytest.approx(4)
    assert queue.refusal().headers == {"retry-after": "4"}
    clock.now += 60
    assert queue.rate() == 0.0


def test_who_gives_up_does_not_count_as_answered() -> None:
    queue = Queue(requests=1, items=1)
    queue.admit(1).leave(answered=False)
    assert queue.rate() == 0.0


def test_a_rate_is_a_bucket_that_fills_again() -> None:
    clock = Clock()
    rates = Rates(60, clock)
    for _ in range(10):
        rates.take("a")
    with pytest.raises(Refusal) as refusal:
        rates.take("a")
    assert refusal.value.status == 429
    assert refusal.value.headers["retry-after"] == "1"
    rates.take("b")
    clock.now += 2
    rates.take("a")
    rates.take("a")
    with pytest.raises(Refusal):
        rates.take("a")


def test_no_rate_is_none() -> None:
    rates = Rates(0)
    for _ in range(10_000):
        rates.take("a")


def test_clients_that_are_remembered_are_bounded() -> None:
    rates = Rates(60, Clock())
    for n in range(20_000):
        rates.take(str(n))
    assert len(rates._buckets) == 10_000


def test_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# all\nabcdefghijklmnop\nABCDEFGHIJKLMNOP the page # ours\n\n")
    keys = Keys(path)
    assert keys.who("abcdefghijklmnop") == "key-2"
    assert keys.who("ABCDEFGHIJKLMNOP") == "the page"
    for wrong in ("", "abcdefghijklmno", "abcdefghijklmnopq", "ä" * 16, "\ud800"):
        assert keys.who(wrong) is None
    path.write_text("another-key-of-mine")
    keys.reload()
    assert keys.who("abcdefghijklmnop") is None
    path.write_text("")
    with pytest.raises(UserError, match="no key"):
        keys.reload()
    assert keys.who("another-key-of-mine"), "what cannot be read changes nothing"


@pytest.mark.parametrize(
    ("text", "what"), [("short", "16"), ("# nothing", "no key"), ("ä" * 20, "ASCII")]
)
def test_a_file_of_keys_that_is_none(text: str, what: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(UserError, match=what):
        Keys(path)
    with pytest.raises(UserError, match="cannot be read"):
        Keys(tmp_path / "none")


@pytest.mark.parametrize(
    ("message", "given", "shown"),
    [
        ("length: 0 must be ≥ 1", [], True),
        ("input 1: no number: “a/b”", ["a/b"], True),
        ("/home/me/runs/mine has no choices", [], False),
        ("cannot read ~/runs/x/model", [], False),
        ("no such word: “/usr/bin/env”", ["see /usr/bin/env"], True),
    ],
)
def test_no_path_is_told_that_was_not_given(message: str, given: list[str], shown: bool) -> None:
    found = refused(UserError(message), given)
    assert found.status == 400
    assert (found.message == message) == shown
