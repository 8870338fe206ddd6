"""The campaign's own rules: an answer is judged right, the page tells of every case, and names are names."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from tests.faults import report
from tests.faults.__main__ import once_more
from tests.faults.campaign import Case, Group, Result, Stage
from tests.faults.catalogue import every_group
from tests.faults.clients import Clients, Ending, Seen, judged

ALL = [(group, case) for group in every_group() for case in group.cases]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(("data", "ending"), [
    (HEAD + b"event: message_start\n\nevent: message_stop\ndata: {}\n\n", "served"),
    (HEAD + b"event: message_start\n\nevent: error\ndata: {}\n\n", "ended"),
    (HEAD + b"event: message_start\n\n", "broken"),
    (HEAD, "broken"),
    (b"", "broken"),
    (b"HTTP/1.1 529 X\r\nretry-after: 3\r\n\r\n{}", "told"),
    (b"HTTP/1.1 502 X\r\n\r\n{}", "told"),
    (b"HTTP/1.1 503 X\r\nx-should-retry: false\r\n\r\n{}", "failed"),
    (b"HTTP/1.1 400 X\r\n\r\n{}", "failed"),
])  # fmt: skip
def test_an_answer_is_judged_by_how_it_ended(data: bytes, ending: Ending) -> None:
    assert judged(data)[0] == ending


def test_clients_see_what_a_server_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answers = [HEAD + b"event: message_stop\n\n", HEAD + b"event: message_start\n\n", b"HTTP/1.1 503 X\r\n\r\n{}"]

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(answer)
            listener.close()

        server = threading.Thread(target=serve)
        server.start()
        with Clients(listener.getsockname()[1], 1) as clients:
            server.join(10)
            while len(clients.calls) < 4:
                pass
    seen = Seen.of(clients.calls)
    assert {"served": 1, "broken": 1, "told": 1}.items() <= seen.counts.items() and seen.counts["refused"] >= 1
    assert str(seen).startswith("1 of ") and seen.but(("served", "broken", "told")) == {"refused": seen.counts["refused"]}


def test_the_page_s_tables_tell_of_every_case() -> None:
    page = report.PAGE.read_text()
    told = [case.name for _, case in ALL if f"| {case.name} |" in page]
    assert told == [case.name for _, case in ALL], "a table that was written by a part of the campaign"
    assert "not as it must be" not in page


def test_what_failed_is_played_once_more_and_fails_only_twice() -> None:
    played: list[str] = []

    def of(name: str, fails: bool) -> Case[None]:
        def play(stage: Stage[None]) -> None:
            played.append(name)
            stage.expect(not fails, "well")

        return Case(name, play)

    group = Group(report.SECTIONS[0], "toy", lambda folder: contextlib.nullcontext(), [of("good", False), of("flaky", False), of("bad", True)])
    first = [Result(name, group.section, "toy", problems=problems) for name, problems in (("good", []), ("flaky", ["late"]), ("bad", ["late"]))]
    good, flaky, bad = once_more(first, [group])
    assert played == ["flaky", "bad"]
    assert (good.problems, flaky.problems, bad.problems) == ([], [], ["not so: well"])
    assert flaky.notes == ["failed at first, beside other cases: late"]


def test_a_name_is_one_case_of_a_known_section() -> None:
    names = [(group.section, case.name) for group, case in ALL]
    assert len(set(names)) == len(names) and {section for section, _ in names} == set(report.SECTIONS)


def test_what_went_wrong_is_in_the_table(tmp_path: Path) -> None:
    rows = [Result("a", report.SECTIONS[0], "toy", "3 of 3 served", 1.26, "served | again"), Result("b", report.SECTIONS[0], "toy", problems=["left behind: x"]),
            Result("c", report.SECTIONS[0], "toy", skipped="no root")]  # fmt: skip
    text = report.tables(rows, {"date": "2026-11-30", "machine": "2 cores", "seconds": 7})
    assert "| a | toy | 3 of 3 served | 1.3 s: served / again | nothing | nothing |" in text
    assert "**not as it must be**: left behind: x" in text and "SKIPPED: no root" in text and "2 faults in 7 s, 1 went" in text
