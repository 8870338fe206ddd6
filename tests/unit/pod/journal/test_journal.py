"""The journal keeps every line it can, tells when it cannot, and never raises."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from pod.journal import journal as module
from pod.journal.journal import Journal, readable
from pod.journal.redact import MASK, Redactor

AT = 1_796_000_000.25


def journal(folder: Path, **more: Any) -> Journal:
    return Journal(folder, Redactor(["s3cret-value"]), now=lambda: AT, **{"stream": None, **more})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_is_structured_redacted_and_readable(tmp_path: Path) -> None:
    stream = io.StringIO()
    kept = journal(tmp_path, stream=stream)
    kept.write("publish", "took s3cret-value", sequence=7, url="https://x/?t=s3cret-value", phases={"load": 1.5}, who=None)
    expected = {"at": "2026-11-30T00:53:20.250Z", "kind": "publish", "message": f"took {MASK}", "sequence": 7,
                "url": f"https://x/?t={MASK}", "phases": {"load": 1.5}, "who": None}
    assert kept.tail(5) == [expected]
    assert lines_of(tmp_path / "journal.jsonl") == [expected]
    assert stream.getvalue() == (f"2026-11-30T00:53:20.250Z publish: took {MASK}  [sequence=7 url=https://x/?t={MASK} "
                                 'phases={"load": 1.5} who=null]\n')
    assert stat.S_IMODE((tmp_path / "journal.jsonl").stat().st_mode) == 0o600
    assert kept.health() == {"on_disk": True, "problem": "", "waiting": 0, "lost": 0}


def test_it_survives_a_restart_and_a_line_cut_by_a_kill(tmp_path: Path) -> None:
    journal(tmp_path).write("engine", "first")
    with open(tmp_path / "journal.jsonl", "ab") as file:
        file.write(b'{"at": "2026", "kind": "eng')
    second = journal(tmp_path)
    second.write("engine", "second")
    assert [entry["message"] for entry in second.tail(9)] == ["first", "second"]
    assert [entry["message"] for entry in journal(tmp_path).tail(9)] == ["first", "second"]
    assert [entry["message"] for entry in second.tail(1)] == ["second"]
    assert second.tail(0) == []


def test_files_rotate_and_stay_readable_over_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 2000)
    kept = journal(tmp_path)
    for number in range(100):
        kept.write("engine", f"line {number}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal.jsonl", "journal.jsonl.1"]
    assert all(path.stat().st_size <= 2000 for path in tmp_path.iterdir())
    messages = [entry["message"] for entry in journal(tmp_path).tail(1000)]
    assert messages == [f"line {number}" for number in range(100 - len(messages), 100)]
    assert len(messages) > 20


def test_a_full_disk_keeps_lines_in_memory_and_writes_them_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = journal(tmp_path)
    kept.write("a", "before")
    full, write = [True], os.write

    def limited(file: int, data: bytes) -> int:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    monkeypatch.setattr("pod.journal.journal.os.write", limited)
    for number in range(3):
        kept.write("a", f"during {number}")
    assert kept.health() == {"on_disk": False, "problem": "No space left on device", "waiting": 3, "lost": 0}
    assert [entry["message"] for entry in kept.tail(4)] == ["before", "during 0", "during 1", "during 2"]
    full[0] = False
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    kept._retry_at = 0.0
    kept.flush()
    assert kept.health() == {"on_disk": True, "problem": "", "waiting": 0, "lost": 0}, "without a new line"
    kept.write("a", "after")
    assert [entry["message"] for entry in lines_of(tmp_path / "journal.jsonl")] == ["before", "during 0", "during 1", "during 2", "after"]


def test_a_disk_that_takes_half_a_line_leaves_whole_lines_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, write = journal(tmp_path), os.write
    monkeypatch.setattr("pod.journal.journal.os.write", lambda file, data: write(file, data[: len(data) // 2]))
    kept.write("a", "halved")
    assert kept.health()["on_disk"] is False
    monkeypatch.setattr("pod.journal.journal.os.write", write)
    kept._retry_at = 0.0
    kept.write("a", "whole")
    assert [entry["message"] for entry in journal(tmp_path).tail(9)] == ["halved", "whole"]


def test_a_folder_that_cannot_be_is_said_and_survived(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = journal(tmp_path / "file" / "below")
    kept.write("a", "kept in memory")
    assert kept.health()["on_disk"] is False
    assert kept.health()["problem"] == "Not a directory"
    assert kept.tail(1)[0]["message"] == "kept in memory"


def test_memory_is_bounded_and_lost_lines_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINES", 10)
    (tmp_path / "file").write_text("")
    kept = journal(tmp_path / "file" / "below")
    for number in range(25):
        kept.write("a", str(number))
    assert kept.health()["waiting"] == 10
    assert kept.health()["lost"] == 15
    assert [entry["message"] for entry in kept.tail(99)] == [str(number) for number in range(15, 25)]


def test_a_folder_that_was_cleaned_is_filled_again(tmp_path: Path) -> None:
    kept = journal(tmp_path)
    kept.write("a", "one")
    (tmp_path / "journal.jsonl").unlink()
    kept.write("a", "two")
    assert [entry["message"] for entry in lines_of(tmp_path / "journal.jsonl")] == ["two"]
    kept.close()
    kept.write("a", "three")
    assert len(lines_of(tmp_path / "journal.jsonl")) == 2


def test_facts_that_are_no_json_and_texts_that_are_no_unicode_are_taken(tmp_path: Path) -> None:
    kept = journal(tmp_path, stream=io.TextIOWrapper(io.BytesIO(), "ascii"))
    loop: list[Any] = []
    loop.append(loop)
    kept.write("a", "lone \udcff surrogate", path=Path("/x"), at="ignored")
    kept.write("a", "nan", value=float("nan"), secret="s3cret-value")
    kept.write("a", "loop", value=loop)
    kept.write("a", "x" * 10_000)
    entries = journal(tmp_path).tail(9)
    assert entries[0]["path"] == "/x"
    assert entries[0]["at"].startswith("2026")
    assert "nan" in entries[1]["facts"]
    assert "s3cret" not in json.dumps(entries)
    assert len(entries[3]["message"]) < 5000


def test_a_closed_stdout_is_survived(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    kept = journal(tmp_path, stream=stream)
    kept.write("a", "one")
    kept.write("a", "two")
    assert len(kept.tail(9)) == 2
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_many_threads_lose_no_line(tmp_path: Path) -> None:
    kept = journal(tmp_path)

    def write(thread: int) -> None:
        for line in range(50):
            kept.write("a", f"{thread}-{line}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({entry["message"] for entry in lines_of(tmp_path / "journal.jsonl")}) == 200


def test_readable_lines_stay_one_line() -> None:
    assert readable({"at": "t", "kind": "k", "message": "a\nb", "x": "c\nd"}) == 't k: a\\nb  [x="c\\nd"]'
