"""An answer that moves fast enough extends its deadline; one that trickles does not, and none does for ever."""

from pykraft.core.answer_pace import FLOOR_BYTES_MAX, FLOOR_SHARE, WINDOWS_MAX, AnswerPace, floor_bytes


def pace() -> AnswerPace:
    return AnswerPace(begun_ms=1_000, window_ms=100, floor_bytes=10)


def test_a_large_answer_must_move_so_fast_that_it_comes_in_time() -> None:
    made = pace()
    size_bytes = WINDOWS_MAX * 50
    assert not made.advance(49, size_bytes, 1_099)
    assert made.advance(50, size_bytes, 1_100)
    assert not made.advance(99, size_bytes, 1_150), "a new window has begun with what had come by then"
    assert made.advance(100, size_bytes, 1_150)


def test_a_small_answer_has_a_floor() -> None:
    made = pace()
    assert not made.advance(9, 20, 1_050)
    assert made.advance(10, 20, 1_050)


def test_no_answer_is_waited_for_for_ever() -> None:
    made = pace()
    over_ms = 1_000 + WINDOWS_MAX * 100
    assert made.advance(10, 20, over_ms - 1)
    assert not made.advance(20, 20, over_ms)


def test_the_floor_is_a_share_of_a_full_answer_and_never_nothing() -> None:
    assert floor_bytes(FLOOR_SHARE * 7) == 7
    assert floor_bytes(1) == 1


def test_large_responses_do_not_raise_the_floor() -> None:
    assert floor_bytes(1_048_576) == floor_bytes(2**31 - 1) == FLOOR_BYTES_MAX == 16_384
