"""Plays the recorded cases of `tests/cases/bridge/<id>/` through the bridge's pure core.

A folder holds `case.json` (title, settings, `wants`: what a person says must come out), `request.json` (one exchange or a
list), and of these what the case needs: `upstream.sse` (comments `: wait 300 ms` are pauses), `upstream.json` (status,
headers, body), and the files made from a reviewed run: `expected_request.json`, `expected.sse`, `expected.json`.
`python -m tests.unit.pod.bridge.play` writes the expected files anew; read the difference before committing it.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from pod.bridge import count, errors, native, translate
from pod.bridge.events import MessageStream
from pod.bridge.models import Names
from pod.bridge.settings import Model, Settings
from pod.bridge.turn import Turn

CASES = Path(__file__).resolve().parents[3] / "cases" / "bridge"
MESSAGE_ID = "msg_0001"
_WAIT = re.compile(rb": wait (\d+) ms\n\n")
Cut = Callable[[bytes], Iterable[bytes]]


class Stream(Protocol):
    """What all modes' streams share."""

    done: bool

    def feed(self, data: bytes) -> list[bytes]: ...
    def flush(self) -> list[bytes]: ...
    def beat(self) -> list[bytes]: ...
    def fail(self, error: errors.ApiError) -> list[bytes]: ...


@dataclasses.dataclass
class Clock:
    """A clock that only moves when told to."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclasses.dataclass
class Case:
    """One recorded case."""

    id: str
    folder: Path
    about: dict[str, Any]
    exchanges: list[dict[str, Any]]

    @property
    def wants(self) -> dict[str, Any]:
        return self.about["wants"] if isinstance(self.about["wants"], dict) else {}

    @property
    def settings(self) -> Settings:
        model = Model(
            tuple(self.about.get("names", ["org/Name-7B:fp8"])),
            "http://127.0.0.1:1",
            context_window=262144,
            reasoning=True,
            multimodal=True,
        )
        return Settings(
            (model,), mode=self.about.get("mode", "translate"), thinking_budget=True, silence_s=self.about.get("silence_s", 3600.0)
        )

    @property
    def names(self) -> Names:
        return Names(self.settings.models)

    def file(self, name: str) -> Path:
        return self.folder / name

    def upstream_answer(self) -> dict[str, Any] | None:
        path = self.file("upstream.json")
        return json.loads(path.read_text()) if path.exists() else None

    def script(self) -> list[bytes | float] | None:
        """Bytes to send and seconds to wait."""
        path = self.file("upstream.sse")
        if not path.exists():
            return None
        steps: list[bytes | float] = []
        for i, part in enumerate(_WAIT.split(path.read_bytes())):
            steps.append(int(part) / 1000 if i % 2 else part)
        return [step for step in steps if step]

    def posts(self) -> list[dict[str, Any]]:
        return [exchange for exchange in self.exchanges if exchange["method"] == "POST" and "/v1/messages" in exchange["path"]]

    def translations(self) -> list[translate.Translation | errors.InvalidRequestError]:
        """What each request becomes, or why it is refused."""
        made: list[translate.Translation | errors.InvalidRequestError] = []
        for exchange in self.posts():
            is_count = "count_tokens" in exchange["path"]
            native_mode = self.settings.mode == "native"
            maker = (
                (native.native_count_request if is_count else native.native_request)
                if native_mode
                else (count.tokenize_request if is_count else translate.chat_request)
            )
            try:
                made.append(maker(exchange["body"], self.settings, self.names))
            except errors.InvalidRequestError as error:
                made.append(error)
        return made

    def turn(self) -> Turn:
        made = next(item for item in self.translations() if isinstance(item, translate.Translation))
        return made.turn


def cases() -> list[Case]:
    found = []
    for folder in sorted(CASES.iterdir()):
        request = json.loads((folder / "request.json").read_text())
        about = json.loads((folder / "case.json").read_text())
        found.append(Case(folder.name, folder, about, request if isinstance(request, list) else [request]))
    return found


def whole(data: bytes) -> Iterable[bytes]:
    return [data]


def bytewise(data: bytes) -> Iterable[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@dataclasses.dataclass
class Played:
    """Frames with the time at which they went out; `early` are those before upstream's end."""

    stream: Any
    sent: list[tuple[float, bytes]]
    early: bytes
    longest_silence: float

    @property
    def bytes(self) -> bytes:
        return b"".join(frame for _, frame in self.sent)


def play(case: Case, cut: Cut = whole, make: Callable[..., Any] | None = None) -> Played:
    """One stream of a case, cut in some way."""
    clock = Clock()
    maker = make or (native.NativeStream if case.settings.mode == "native" else MessageStream)
    stream = maker(case.turn(), MESSAGE_ID, usage_s=case.settings.usage_s, clock=clock)
    script = case.script()
    assert script is not None
    return play_script(stream, script, cut, clock, case.settings)


def play_script(stream: Any, script: list[bytes | float], cut: Cut, clock: Clock, settings: Settings) -> Played:
    """Feeds a script, and beats whenever nothing went out for the ping interval."""
    sent: list[tuple[float, bytes]] = []
    last_out = last_in = began = clock.now
    longest = 0.0

    def out(frames: list[bytes]) -> None:
        nonlocal last_out, longest
        if frames:
            longest = max(longest, clock.now - last_out)
            last_out = clock.now
            sent.extend((clock.now - began, frame) for frame in frames)

    for step in script:
        if isinstance(step, bytes):
            last_in = clock.now
            for piece in cut(step):
                out(stream.feed(piece))
            continue
        end = clock.now + step
        while not stream.done and clock.now < end:
            clock.now = min(end, last_out + settings.ping_s, last_in + settings.silence_s)
            if clock.now >= last_in + settings.silence_s:
                out(stream.fail(errors.silent(settings.silence_s)))
            elif clock.now >= last_out + settings.ping_s:
                out(stream.beat())
        longest = max(longest, clock.now - last_out)
    early = b"".join(frame for _, frame in sent)
    out(stream.flush())
    return Played(stream, sent, early, longest)


def write_expected() -> None:
    """Writes the expected files of all cases."""
    for case in cases():
        for name in ("expected.sse", "expected.json", "expected_request.json"):
            case.file(name).unlink(missing_ok=True)
        bodies = [made.body if isinstance(made, translate.Translation) else made.payload() for made in case.translations()]
        if bodies:
            _write(case.file("expected_request.json"), bodies[0] if len(bodies) == 1 else bodies)
        answer = case.upstream_answer()
        if answer is not None:
            _write(case.file("expected.json"), answered(case, answer))
        if case.script() is not None and any(isinstance(made, translate.Translation) for made in case.translations()):
            case.file("expected.sse").write_bytes(play(case).bytes)


def answered(case: Case, answer: dict[str, Any]) -> dict[str, Any]:
    """What a whole answer of the engine becomes: a message, a count, or status, headers and body of an error."""
    if answer["status"] >= 400:
        error = errors.from_upstream(answer["status"], answer["headers"], json.dumps(answer["body"]).encode())
        return {"status": error.status, "headers": error.headers(), "body": error.payload()}
    if "input_tokens" in answer["body"]:
        return {"input_tokens": count.count_in(json.dumps(answer["body"]).encode())}
    message, notes = translate.completion_message(answer["body"], case.turn(), MESSAGE_ID)
    return {**message, "notes": list(notes)} if notes else message


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_expected()
