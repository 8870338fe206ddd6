"""The command as a person and a script meet it: exit codes, JSON, files on disk, and messages without a traceback."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from compiler import __version__, artifact, cli
from compiler.command_support import Exit
from tests.cli.command import environment, podwright, process
from tests.support import ROOT, SPECS

CHILD = "kind: profile\nsummary: A test.\nextends: nemotron-ada\n"
COMMANDS = (
    (), ("build",), ("lint",), ("import",), ("plan",), ("explain",), ("list",), ("schema",), ("init",), ("new",), ("lock",), ("image",), ("docs",),
    ("deploy",), ("wait",), ("status",), ("logs",), ("stop",), ("start",), ("restart",), ("terminate",), ("stock",), ("cost",), ("sweep",),
    ("engine",), ("engine", "list"), ("engine", "flag"), ("engine", "diff"), ("engine", "snapshot"),
)  # fmt: skip


def specs(folder: Path, **profiles: str) -> Path:
    """A folder of specs with these profiles."""
    (folder / "specs" / "profiles").mkdir(parents=True, exist_ok=True)
    for name, text in profiles.items():
        (folder / "specs" / "profiles" / f"{name}.yaml").write_text(text)
    return folder / "specs"


def contents(folder: Path) -> dict[str, bytes]:
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def test_version_and_help() -> None:
    assert podwright("--version").out == f"podwright {__version__}\n"
    for command in COMMANDS:
        ended = podwright(*command, "--help")
        assert ended.code == Exit.OK
        assert not command or command == ("engine",) or "Examples:" in ended.out
    assert "3 `build --check` found drift" in " ".join(podwright("--help").out.split())


@pytest.mark.parametrize("args", [
    ("--nothing",), ("nothing",), ("build",), ("build", "nemotron-ada", "--all"), ("build", "nemotron-ada", "--api", "v3"), ("build", "x", "--specs", "/nowhere"), ("plan",),
    ("build", "x", "--only-specs"), ("list", "nothing"), ("schema", "nothing"), ("new", "nothing", "x"), ("new", "profile", "Bad Name"), ("new", "profile", "bad\n"),
    ("new", "profile", "x", "--extends", "nothing"), ("explain", "NOPE999"), ("explain", "nemotron-ada", "engine.nothing"), ("engine", "flag", "vllm-0.27.1", "no-such-option"),
])  # fmt: skip
def test_wrong_usage_is_2(args: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = podwright(*args)
    assert ended.code == Exit.USAGE
    assert ended.out == ""
    assert ended.err.strip()
    assert list(tmp_path.iterdir()) == []


def test_build_writes_a_bundle_and_reports_it(tmp_path: Path) -> None:
    ended = podwright("build", "nemotron-ada", "--out", tmp_path)
    assert ended.code == Exit.OK
    for words in ("nemotron-ada: ", "memory of one GPU", "concurrency", "price", "findings", str(tmp_path / "nemotron-ada")):
        assert words in ended.out
    names = {p.name for p in (tmp_path / "nemotron-ada").iterdir()}
    assert names >= {"Dockerfile", "bootstrap.sh", "start-command.json", "runpod-template.json", "runpod-pod.json", "manifest.json", "plan.json", "connect.sh", "connect.ps1", "PLAN.md", "bundle.lock"}


def test_json_of_build(tmp_path: Path) -> None:
    bad = specs(tmp_path, bad=CHILD + "zzz: 1\n")
    ended = podwright("build", "nemotron-ada", "bad", "nemotron-ada", "--specs", bad, "--out", tmp_path / "out", "--json")
    assert ended.code == Exit.REFUSED
    assert ended.err == ""
    value = json.loads(ended.out)
    assert value.keys() == {"ok", "bundles"}
    assert value["ok"] is False
    good, refused = value["bundles"]
    assert (good["profile"], good["ok"], good["folder"]) == ("nemotron-ada", True, str(tmp_path / "out" / "nemotron-ada"))
    assert "plan.json" in good["changed"]
    (finding,) = refused["findings"]
    assert finding == {"file": finding["file"], "route": "zzz", "line": 4, "column": 1, "code": "SPC011", "severity": "error", "what": "unknown key `zzz`", "why": finding["why"], "fix": finding["fix"]}
    assert not (tmp_path / "out" / "bad").exists()


def test_message_has_place_and_caret_under_the_column(tmp_path: Path) -> None:
    ended = podwright("build", "bad", "--specs", specs(tmp_path, bad=CHILD + "bridge: {porrt: 80}\n"), "--out", tmp_path / "out")
    lines = ended.err.splitlines()
    assert re.fullmatch(r".*profiles/bad\.yaml:4:10: SPC011 error: unknown key `porrt` in `bridge`", lines[0])
    assert lines[1] == "    4 | bridge: {porrt: 80}"
    assert lines[2] == "      |          ^~~~~"
    assert lines[1][lines[2].index("^") :].startswith("porrt")
    assert lines[3].startswith("  why: ")
    assert lines[4] == "  fix: Did you mean `port`?"
    assert lines[5] == "bad: refused, 1 error."


def test_check_finds_drift_and_writes_nothing(tmp_path: Path) -> None:
    assert podwright("build", "tiny-cpu", "--out", tmp_path, "--check").code == Exit.DRIFTED
    assert list(tmp_path.iterdir()) == []
    podwright("build", "tiny-cpu", "--out", tmp_path)
    assert podwright("build", "tiny-cpu", "--out", tmp_path, "--check").code == Exit.OK
    for change in (lambda f: (f / "PLAN.md").write_text("x"), lambda f: (f / "bootstrap.sh").chmod(0o600), lambda f: (f / "manifest.json").unlink()):
        podwright("build", "tiny-cpu", "--out", tmp_path)
        change(tmp_path / "tiny-cpu")
        before = contents(tmp_path)
        ended = podwright("build", "tiny-cpu", "--out", tmp_path, "--check", "--json")
        assert ended.code == Exit.DRIFTED
        assert [b["changed"] for b in json.loads(ended.out)["bundles"]] != [[]]
        assert contents(tmp_path) == before


def test_failed_build_leaves_the_old_bundle(tmp_path: Path) -> None:
    folder = specs(tmp_path, mine=CHILD)
    assert podwright("build", "mine", "--specs", folder, "--out", tmp_path / "out").code == Exit.OK
    before = contents(tmp_path / "out")
    specs(tmp_path, mine=CHILD + "settings: {max_model_len: 100M}\n")
    ended = podwright("build", "mine", "--specs", folder, "--out", tmp_path / "out")
    assert ended.code == Exit.REFUSED
    assert "is as it was" in ended.err
    assert contents(tmp_path / "out") == before


def test_rebuilding_changes_nothing_on_disk(tmp_path: Path) -> None:
    podwright("build", "tiny-cpu", "--out", tmp_path)
    before = (tmp_path / "tiny-cpu").stat().st_ino, (tmp_path / "tiny-cpu" / "plan.json").stat().st_mtime_ns
    assert json.loads(podwright("build", "tiny-cpu", "--out", tmp_path, "--json").out)["bundles"][0]["changed"] == []
    assert ((tmp_path / "tiny-cpu").stat().st_ino, (tmp_path / "tiny-cpu" / "plan.json").stat().st_mtime_ns) == before


def test_specs_beside_and_instead(tmp_path: Path) -> None:
    folder = specs(tmp_path, mine=CHILD)
    names = [row["NAME"] for row in json.loads(podwright("list", "--specs", folder, "--json").out)]
    assert "mine" in names
    assert "nemotron-ada" in names
    assert [row["NAME"] for row in json.loads(podwright("list", "--specs", folder, "--only-specs", "--json").out)] == ["mine"]
    assert podwright("build", "mine", "--specs", folder, "--only-specs", "--out", tmp_path / "out").code == Exit.REFUSED
    first = specs(tmp_path / "first", mine=CHILD.replace("A test.", "The first folder wins."))
    assert "The first folder wins." in podwright("plan", "mine", "--specs", first, "--specs", folder).out


def test_specs_from_the_environment(tmp_path: Path) -> None:
    ended = process("list", "--json", PODWRIGHT_SPECS=str(specs(tmp_path, mine=CHILD)))
    assert "mine" in [row["NAME"] for row in json.loads(ended.stdout)]


def test_no_profiles_at_all(tmp_path: Path) -> None:
    folder = specs(tmp_path)
    assert podwright("build", "--all", "--specs", folder, "--only-specs").code == Exit.USAGE
    assert podwright("list", "--specs", folder, "--only-specs").code == Exit.OK


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device", "/out/x"), PermissionError(errno.EACCES, "Permission denied", "/out"), OSError(errno.EROFS, "Read-only file system")])
def test_what_the_machine_refuses_is_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    podwright("build", "tiny-cpu", "--out", tmp_path)
    (tmp_path / "tiny-cpu" / "PLAN.md").write_text("changed")
    before = contents(tmp_path)

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(artifact, "_write_file", refuse)
    ended = podwright("build", "tiny-cpu", "--out", tmp_path)
    assert ended.code == Exit.FAILED
    where = f"{error.filename}: " if error.filename else ""
    assert ended.err.startswith(f"podwright: {where}{error.strerror}")
    assert "fix: " in ended.err
    assert contents(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["tiny-cpu"]


def test_out_that_is_a_file_and_out_that_is_somebodys_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert podwright("build", "tiny-cpu", "--out", tmp_path / "file").code == Exit.FAILED
    (tmp_path / "tiny-cpu").mkdir()
    (tmp_path / "tiny-cpu" / "thesis.txt").write_text("years of work")
    ended = podwright("build", "tiny-cpu", "--out", tmp_path)
    assert ended.code == Exit.FAILED
    assert "not a bundle" in ended.err
    assert contents(tmp_path) == {"file": b"mine", "tiny-cpu/thesis.txt": b"years of work"}


def test_unwritable_folder_of_a_real_process(tmp_path: Path) -> None:
    ended = process("build", "tiny-cpu", "--out", "/proc/podwright")
    assert ended.returncode == Exit.FAILED
    assert b"Traceback" not in ended.stderr


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """A process that may write no file above a few kB: the kernel refuses the rest, as a full disk does."""
    podwright("build", "tiny-cpu", "--out", tmp_path)
    (tmp_path / "tiny-cpu" / "PLAN.md").write_text("changed")
    before = contents(tmp_path)
    script = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); from compiler.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", script, "build", "tiny-cpu", "--out", str(tmp_path)], cwd=ROOT, env=environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == Exit.FAILED
    assert b"File too large" in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert contents(tmp_path) == before


SLOW = textwrap.dedent("""
    import sys, time
    from compiler import artifact, cli
    real, count = artifact.{function}, iter(range(1000))
    def slow(*args):
        result = real(*args) if {after} else None
        if next(count) == {at}:
            print("here", flush=True)
            time.sleep(60)
        return result if {after} else real(*args)
    artifact.{function} = slow
    cli.main()
""")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("function", "at", "after"), [("_write_file", 0, False), ("_write_file", 9, True), ("_swap", 0, False), ("_swap", 0, True)])
def test_interrupted_build_leaves_a_whole_bundle(tmp_path: Path, sent: signal.Signals, function: str, at: int, after: bool) -> None:
    podwright("build", "tiny-cpu", "--out", tmp_path)
    new = contents(tmp_path / "tiny-cpu")
    (tmp_path / "tiny-cpu" / "PLAN.md").write_text("old")
    old = contents(tmp_path / "tiny-cpu")
    script = SLOW.format(function=function, at=at, after=after)
    child = subprocess.Popen([sys.executable, "-c", script, "build", "tiny-cpu", "--out", str(tmp_path)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"here\n"
    child.send_signal(sent)
    _, err = child.communicate(timeout=30)
    assert child.returncode == Exit.INTERRUPTED
    assert err.decode().strip().splitlines()[-1] == "podwright: interrupted; bundles on disk are as they were."
    assert b"Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["tiny-cpu"]
    assert contents(tmp_path / "tiny-cpu") == (new if function == "_swap" and after else old)


@pytest.mark.parametrize("args", [("list", "evidence"), ("explain", "nemotron-ada"), ("plan", "nemotron-ada", "--json"), ("lint", "-v")])
def test_closed_pipe_is_quiet(args: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    child = subprocess.run([sys.executable, "-c", "from compiler.cli import main; main()", *args], cwd=ROOT, env=environment(), stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert child.returncode == Exit.FAILED
    assert b"Traceback" not in child.stderr
    assert b"Exception ignored" not in child.stderr
    assert b"BrokenPipe" not in child.stderr


@pytest.mark.parametrize("args", [("explain", "nemotron-ada"), ("build", "nemotron-ada", "--check", "--out", "/nowhere"), ("list", "models"), ("plan", "tiny-cpu", "--json"), ("plan", "h\udce9")])
def test_streams_that_take_ascii_only(args: tuple[str, ...]) -> None:
    ended = process(*args, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.returncode in (Exit.OK, Exit.DRIFTED, Exit.REFUSED)
    assert b"Traceback" not in ended.stderr
    assert (ended.stdout + ended.stderr).isascii()
    assert "--json" not in args or json.loads(ended.stdout)


def test_plan_json_has_the_promised_memory() -> None:
    memory = json.loads(podwright("plan", "nemotron-ada", "--json").out)["memory"]
    assert memory["verdict"] in ("fits", "tight", "refused")
    assert memory.keys() >= {"weights_gib", "kv_gib", "kv_tokens", "bytes_per_token", "block_size", "concurrency", "longest_context", "needed_gib", "parts"}
    assert memory["kv_gib"].keys() == memory["kv_tokens"].keys() == memory["concurrency"].keys() == {"low", "mid", "high"}


def test_what_cannot_fit_says_by_how_much_and_what_would(tmp_path: Path) -> None:
    folder = specs(tmp_path, mine="kind: profile\nsummary: A test.\nextends: ornith-2xa40\nhardware: l4\n")
    ended = podwright("build", "mine", "--specs", folder, "--out", tmp_path / "out")
    assert ended.code == Exit.REFUSED
    assert "MEM001 error" in ended.err
    assert re.search(r"[0-9.]+ GiB", ended.err)
    assert podwright("plan", "mine", "--specs", folder).code == Exit.REFUSED


def test_context_beyond_native_without_yarn_is_refused(tmp_path: Path) -> None:
    folder = specs(tmp_path, mine="kind: profile\nsummary: A test.\nextends: qwen3-coder-a40\nsettings: {max_model_len: {value: 400000, reason: A test.}}\n")
    ended = podwright("build", "mine", "--specs", folder, "--out", tmp_path / "out")
    assert ended.code == Exit.REFUSED
    assert re.search(r"mine\.yaml:4:[0-9]+: CTX[0-9]+ error", ended.err)


def test_explain() -> None:
    ended = podwright("explain", "nemotron-ada", "engine.max_num_batched_tokens")
    assert ended.code == Exit.OK
    assert ended.out.startswith("engine.max_num_batched_tokens = 8192\n  from    profile specs/profiles/nemotron-ada.yaml:")
    assert "  reason  " in ended.out
    assert "  rests   nemotron-blackwell/" in ended.out
    (decision,) = json.loads(podwright("explain", "nemotron-ada", "engine.max_num_batched_tokens", "--json").out)
    assert decision["evidence"][0].keys() >= {"id", "date", "metric", "value"}
    assert len(json.loads(podwright("explain", "nemotron-ada", "engine", "--json").out)) > 10
    assert "Did you mean engine.max_num_batched_tokens" in podwright("explain", "nemotron-ada", "engine.max_num_batched_token").err
    assert podwright("explain", "MEM001").out.startswith("MEM001 window-does-not-fit (error)")


@pytest.mark.parametrize("text", ["- a\n", "text\n", "", "a: [\n", "kind: profile\nextends: [x]\n", "kind: profile\nsummary: 5\nextends: x\n", "null\n"])
def test_list_copes_with_broken_specs(tmp_path: Path, text: str) -> None:
    folder = specs(tmp_path, mine=text)
    ended = podwright("list", "--specs", folder, "--only-specs", "--json")
    assert ended.code == Exit.OK
    assert "findings; see" in json.loads(ended.out)[0]["SUMMARY"]
    assert podwright("lint", "--specs", folder, "--only-specs").code == Exit.REFUSED


@pytest.mark.parametrize("kind", ["profiles", "models", "hardware", "engines", "evidence", "rules"])
def test_list(kind: str) -> None:
    rows = json.loads(podwright("list", kind, "--json").out)
    assert len(rows) > 2
    assert all(all(cell for cell in row.values()) for row in rows)
    assert podwright("list", kind).out.count("\n") == len(rows) + 1


def test_lint_is_strict_only_when_asked(tmp_path: Path) -> None:
    text = CHILD + "settings: {max_num_seqs: 12}\n"
    folder = specs(tmp_path, mine=text)
    assert podwright("lint", "mine", "--specs", folder).code == Exit.OK
    assert podwright("lint", "mine", "--specs", folder, "--strict").code == Exit.REFUSED
    value = json.loads(podwright("lint", "mine", "--specs", folder, "--strict", "--json").out)
    assert value["ok"] is False
    assert all(f.keys() == {"file", "route", "line", "column", "code", "severity", "what", "why", "fix"} for f in value["findings"])


def test_lint_reads_specs_that_no_profile_uses(tmp_path: Path) -> None:
    folder = specs(tmp_path)
    (folder / "models").mkdir()
    (folder / "models" / "alone.yaml").write_text("kind: model\nsummary: 5\n")
    ended = podwright("lint", "--specs", folder, "--json")
    assert ended.code == Exit.REFUSED
    assert {f["code"] for f in json.loads(ended.out)["findings"] if "alone" in f["file"]} == {"SPC012", "SPC013"}


def test_all_shipped_specs_lint_without_errors() -> None:
    assert json.loads(podwright("lint", "--json").out)["ok"] is True


def test_schema_commands(tmp_path: Path) -> None:
    assert json.loads(podwright("schema", "profile").out)["title"] == "podwright profile spec"
    (tmp_path / "mine.txt").write_text("mine")
    assert podwright("schema", "--out", tmp_path, "--check").code == Exit.DRIFTED
    assert podwright("schema", "--out", tmp_path).code == Exit.OK
    assert podwright("schema", "--out", tmp_path, "--check").code == Exit.OK
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 7


def test_init_and_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert podwright("init", "my").code == Exit.OK
    assert podwright("init", "my").code == Exit.USAGE
    assert podwright("build", "my-first", "--specs", "my").code == Exit.OK
    assert podwright("new", "profile", "fast", "--extends", "my-first", "--specs", "my").code == Exit.OK
    before = contents(tmp_path / "my")
    assert podwright("new", "profile", "fast", "--specs", "my").code == Exit.USAGE
    assert contents(tmp_path / "my") == before
    for kind in ("model", "hardware"):
        assert podwright("new", kind, "on", "--specs", "my").code == Exit.OK
    assert podwright("lint", "--specs", "my").code == Exit.OK


def test_engine_commands() -> None:
    assert podwright("engine", "flag", "vllm-0.27.1", "kv-cache-dtype").code == Exit.OK
    assert json.loads(podwright("engine", "flag", "vllm-0.27.1", "--json", "--", "--kv-cache-dtype").out)["options"][0] == "--kv-cache-dtype"
    assert "Did you mean --kv-cache-dtype?" in podwright("engine", "flag", "vllm-0.27.1", "kv-cache-dtipe").err
    assert json.loads(podwright("engine", "diff", "vllm-0.26.0", "vllm-0.27.1", "--json").out).keys() == {"older", "newer", "removed", "added", "changed"}
    assert podwright("engine", "flag", "nothing", "x").code == Exit.REFUSED
    assert json.loads(podwright("engine", "list", "--json").out)


@pytest.mark.parametrize("name", ["nothing", "../x", "a/b", "x" * 300, "", "$(touch podwright-was-here)", "\x1b[31m", "é"])
@pytest.mark.parametrize("command", ["build", "plan", "explain", "lint"])
def test_names_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    ended = podwright(command, name)
    assert ended.code == Exit.REFUSED
    assert "SPC020" in ended.err
    assert "\x1b" not in ended.err
    assert list(tmp_path.iterdir()) == []


def test_v1_bodies(tmp_path: Path) -> None:
    podwright("build", "nemotron-ada", "--out", tmp_path / "v2")
    podwright("build", "nemotron-ada", "--out", tmp_path / "v1", "--api", "v1")
    assert (tmp_path / "v1/nemotron-ada/runpod-pod.json").read_bytes() != (tmp_path / "v2/nemotron-ada/runpod-pod.json").read_bytes()


def test_every_exit_code_is_documented() -> None:
    page = (ROOT / "docs" / "exit-codes.md").read_text("utf-8")
    assert {int(code) for code in re.findall(r"^\| ([0-9]+) \|", page, re.MULTILINE)} == {int(code) for code in Exit}
    for code in Exit:
        assert str(int(code)) in cli.EXIT_CODES


def test_shipped_profiles_are_offered_for_completion() -> None:
    assert cli.profile_names("nemotron-a") == ["nemotron-a100", "nemotron-ada"]
    assert (SPECS / "profiles" / "nemotron-ada.yaml").exists()


def test_help_of_the_bridge_needs_none_of_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("compiler.cli_bridge.NEEDED", ("no_such_package",))
    monkeypatch.setattr("os.execv", lambda _, argv: started.append(argv))
    assert podwright("bridge", "--upstream", "http://gpu:8000").code == Exit.FAILED
    assert started == []
    podwright("bridge", "--help")
    assert [argv[1:] for argv in started] == [["-m", "pod.bridge", "--help"]]


def test_a_file_where_a_folder_belongs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = podwright("init", tmp_path / "file")
    assert (ended.code, "is a file" in ended.err) == (Exit.USAGE, True)


def test_a_profile_that_is_not_shipped_reminds_of_the_own_folder(tmp_path: Path) -> None:
    hint = "A profile of your own is found with --specs FOLDER (make: SPECS=FOLDER)."
    assert hint in podwright("build", "mine", "--out", tmp_path).err
    assert hint not in podwright("build", "other", "--specs", specs(tmp_path, mine=CHILD), "--out", tmp_path).err


def test_a_folder_that_cannot_be_made_is_named_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = podwright("build", "tiny-cpu", "--out", tmp_path / "file")
    assert ended.code == Exit.FAILED
    assert f"podwright: {tmp_path / 'file'}" in ended.err


def test_a_model_without_quantization_is_called_so() -> None:
    assert "/opt/podwright/model, not quantized, W16A16, served as tiny" in podwright("plan", "tiny-cpu").out


@pytest.mark.parametrize("target", ["build", "plan", "lock", "image", "deploy"])
def test_make_says_that_a_profile_is_missing(target: str) -> None:
    ended = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, "say PROFILE=name; `make list` shows the names" in ended.stderr) == (2, True)
