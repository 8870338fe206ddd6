"""Memory of all cards."""

from __future__ import annotations

from pod import gpu


def test_numbers_of_every_card() -> None:
    assert gpu.parsed_mib("12\n45010\n") == (12, 45010)
    assert gpu.parsed_mib("12\n[N/A]\n") is None and gpu.parsed_mib("\n") is None


def test_one_full_card_is_not_free() -> None:
    assert gpu.is_free((4, 4), None)
    assert not gpu.is_free((4, 44000), None)
    assert not gpu.is_free((44000, 4), None)


def test_what_was_used_before_our_first_engine_is_not_waited_for() -> None:
    assert gpu.is_free((5200, 10), (5000, 10))
    assert not gpu.is_free((9000, 10), (5000, 10))


def test_it_waits_until_all_are_free() -> None:
    answers = iter([(40000, 40000), (4, 39000), (4, 4)])
    slept: list[float] = []
    assert gpu.wait_free(None, ask=lambda: next(answers), sleep=slept.append, now=lambda: sum(slept)) == (True, (4, 4))
    assert len(slept) == 2


def test_it_gives_up_and_says_what_it_saw() -> None:
    slept: list[float] = []
    assert gpu.wait_free(None, 10, lambda: (40000,), slept.append, lambda: sum(slept)) == (False, (40000,))


def test_without_a_driver_there_is_nothing_to_wait_for() -> None:
    assert gpu.wait_free(None, ask=lambda: None) == (True, None)
