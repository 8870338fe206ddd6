"""The rendered bootstrap under a real Bash, in a folder that looks like a pod."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from compiler.plan.core import DesktopPlan, EnvVar, NetworkPlan, Package, Plan, PublishPlan
from tests.unit.render.fake_pod import FakePod
from tests.unit.render.plans import MANIFEST, cpu_plan, example_engine, example_image, example_plan

pytestmark = pytest.mark.living


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def plan_with(**changes: object) -> Plan:
    """An example whose ports are free on this machine."""
    ports = NetworkPlan((), 8080, 18081, "127.0.0.1", (_free_port(), _free_port()), ())
    return example_plan(**({"network": ports} | changes))


def test_healthy_host_reaches_the_runtime(tmp_path: Path) -> None:
    pod = FakePod(tmp_path, plan_with())
    pod.add_distribution("fastokens", "0.3.5")
    outcome = pod.run(MANIFEST.sha256)
    assert outcome.code == 0, outcome.log
    assert outcome.runtime and outcome.runtime["argv"] == ["--manifest", f"{tmp_path}/opt/podwright/manifest.json", "run"]
    assert outcome.env["PATH"].startswith(f"{tmp_path}/opt/venv/bin:")
    assert outcome.host_env["VLLM_USE_FASTOKENS"] == "1"
    assert not outcome.fatal


def test_banner_is_the_first_line(tmp_path: Path) -> None:
    assert "podwright bootstrap" in FakePod(tmp_path, plan_with()).run().log.splitlines()[0]


def test_runtime_takes_the_place_of_the_shell(tmp_path: Path) -> None:
    """Otherwise the provider's SIGTERM would reach Bash and not the runtime."""
    pod = FakePod(tmp_path, plan_with())
    script = pod.script.read_text("utf-8").replace('log "starting the runtime', 'echo "shell is $$"; log "starting the runtime')
    pod.script.write_text(script, "utf-8")
    outcome = pod.run()
    assert outcome.runtime and f"shell is {outcome.runtime['pid']}" in outcome.log


def test_old_driver_gets_compat_first_in_the_library_path(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(FAKE_DRIVER="570.195.03", FAKE_CUDA="12.8", LD_LIBRARY_PATH="/usr/local/nvidia/lib")
    assert outcome.host_env["LD_LIBRARY_PATH"] == f"{tmp_path}/usr/local/cuda-13.0/compat:/usr/local/nvidia/lib"
    assert "driver 570.195.03, CUDA of the driver 12.8, CUDA of the engine 13.0" in outcome.log


@pytest.mark.parametrize("driver", ["580.65.06", "590.1"])
def test_new_driver_never_gets_compat(tmp_path: Path, driver: str) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(FAKE_DRIVER=driver)
    assert "LD_LIBRARY_PATH" not in outcome.host_env


def test_old_driver_without_compat_is_fatal_and_names_cause_and_cure(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with(), compat=False).run(FAKE_DRIVER="570.195.03", FAKE_CUDA="12.8")
    assert outcome.runtime is None
    assert "driver 570.195.03 offers CUDA 12.8, the engine needs CUDA 13.0" in outcome.fatal
    assert "allowedCudaVersions" in outcome.fatal


def test_fatal_holds_the_container_open_until_sigterm(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(FAKE_DRIVER="")
    assert outcome.code == 143
    assert "the container stays open" in outcome.log and "stopped" in outcome.log
    assert outcome.fatal.startswith("phase: driver\n")


def test_no_gpu_driver_is_fatal(tmp_path: Path) -> None:
    assert "couldn't communicate with the NVIDIA driver" in FakePod(tmp_path, plan_with()).run(FAKE_DRIVER="").fatal


def test_too_few_gpus_are_fatal(tmp_path: Path) -> None:
    assert "lists 1 GPUs and the profile needs 2" in FakePod(tmp_path, plan_with()).run(FAKE_GPUS="1").fatal


def test_torch_without_gpu_is_fatal_before_the_engine(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(FAKE_TORCH_GPUS="0")
    assert "torch 2.13.0+cu130 finds no usable GPU" in outcome.fatal and outcome.runtime is None


@pytest.mark.parametrize("sick", [{"FAKE_TORCH_GPUS": "1"}, {"FAKE_BROKEN_GPU": "1"}])
def test_sick_host_says_delete_the_pod(tmp_path: Path, sick: dict[str, str]) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(**sick)
    assert "sick host" in outcome.fatal and "delete this pod" in outcome.fatal


def test_taken_port_is_fatal_and_names_its_owner(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = FakePod(tmp_path, plan_with(network=NetworkPlan((), 8080, port, "127.0.0.1", (port,), ()))).run()
    assert f"port {port} is taken by process {os.getpid()}" in outcome.fatal
    assert "engine_port" in outcome.fatal


def test_another_port_is_the_cure_for_a_taken_one(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, other = taken.getsockname()[1], _free_port()
        pod = FakePod(tmp_path, plan_with(network=NetworkPlan((), 8080, port, "127.0.0.1", (port,), ())))
        outcome = pod.run(VL_PORT=str(other))
    assert f"free ports: {other}" in outcome.log and outcome.code == 0


def test_missing_curand_switches_the_sampler_off(tmp_path: Path) -> None:
    plan = plan_with(engine=example_engine(env=(EnvVar("VLLM_USE_FLASHINFER_SAMPLER", "1"),)))
    outcome = FakePod(tmp_path, plan, curand=False).run()
    assert outcome.host_env["VLLM_USE_FLASHINFER_SAMPLER"] == "0" and "curand.h" in outcome.log


def test_sampler_stays_on_with_compiler_and_header_whatever_the_driver(tmp_path: Path) -> None:
    plan = plan_with(engine=example_engine(env=(EnvVar("VLLM_USE_FLASHINFER_SAMPLER", "1"),)))
    pod = FakePod(tmp_path, plan)
    for driver in ("570.1", "580.1"):
        assert pod.run(FAKE_DRIVER=driver).host_env["VLLM_USE_FLASHINFER_SAMPLER"] == "1"
    assert pod.run(VL_FLASHINFER="off").host_env["VLLM_USE_FLASHINFER_SAMPLER"] == "0"


def test_missing_compiler_is_said_and_cuda_home_is_not_left_dangling(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with(), nvcc=False).run(CUDA_HOME="/usr/local/cuda-12.8")
    assert "CUDA_HOME" not in outcome.env and "no CUDA 13.0 compiler" in outcome.log


def test_full_disk_is_fatal_with_numbers(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(FAKE_FREE_KB="10000000")
    assert "takes 26 GB" in outcome.fatal and "10 GB free" in outcome.fatal and "at least 200 GB" in outcome.fatal


@pytest.mark.parametrize("value", ["lots", "-1", "4096; reboot", "$(id)", "4096\nx", " 4096"])
def test_lever_with_an_impossible_value_is_fatal(tmp_path: Path, value: str) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(VL_CTX=value)
    assert "VL_CTX" in outcome.fatal and "[1-9][0-9]{2,7}" in outcome.fatal and outcome.runtime is None


def test_lever_is_logged_and_an_unknown_one_reported(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(VL_CTX="131072", VL_CTZ="1")
    assert "VL_CTX=131072 is set" in outcome.log and "VL_CTZ is set and means nothing" in outcome.log
    assert outcome.env["VL_CTX"] == "131072"


def test_missing_fastokens_falls_back_to_the_standard_tokenizer(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run()
    assert outcome.host_env["VLLM_USE_FASTOKENS"] == "0" and "fast tokenizer off" in outcome.log


def test_a_package_that_fails_does_not_keep_the_next_from_being_tried(tmp_path: Path) -> None:
    packages = (Package("fastokens==0.3.5", "x"), Package("humming-kernels[cu13]==0.1.10", "x"))
    outcome = FakePod(tmp_path, plan_with(image=example_image(packages=packages))).run()
    assert "no index: fastokens==0.3.5" in outcome.log and "no index: humming-kernels[cu13]==0.1.10" in outcome.log
    assert outcome.code == 0


def test_humming_is_required_once_the_engine_asks_for_its_kernels(tmp_path: Path) -> None:
    engine = example_engine(argv=("vllm", "serve", "m", "--moe-backend", "humming"))
    image = example_image(packages=(Package("humming-kernels[cu13]==0.1.10", "x"),))
    assert "cannot serve without it" in FakePod(tmp_path, plan_with(image=image, engine=engine)).run().fatal


def pod_with_transformers(folder: Path, broken: str) -> FakePod:
    """Version 5.15.1 is installed and 5.16.1 wanted; `broken` is the one that does not import."""
    pod = FakePod(folder, plan_with(image=example_image(packages=(Package("transformers==5.16.1", "x"),))))
    pod.add_distribution("transformers", "5.15.1")
    site = folder / "opt/site"
    installer = f"""#!/bin/bash
version=${{2#*==}}
rm -rf {site}/transformers*
mkdir {site}/transformers-$version.dist-info
printf 'Metadata-Version: 2.1\nName: transformers\nVersion: %s\n' "$version" >{site}/transformers-$version.dist-info/METADATA
case $version in {broken}) echo "raise ImportError('needs another torch')" ;; *) echo "AutoConfig = AutoTokenizer = 1" ;; esac >{site}/transformers.py
echo "asked for $2"
"""
    pod.add_file("opt/podwright/common/install-extra.sh", installer, 0o755)
    return pod


def test_transformers_that_does_not_import_goes_back(tmp_path: Path) -> None:
    outcome = pod_with_transformers(tmp_path, "5.16.1").run()
    assert "asked for transformers==5.15.1" in outcome.log and "needs another torch; 5.15.1 is back" in outcome.log
    assert "a Python distribution cannot be installed" in outcome.fatal
    assert (tmp_path / "opt/site/transformers-5.15.1.dist-info").is_dir()


def test_an_upgrade_is_noted_for_the_runtime_and_one_with_which_the_engine_did_not_start_is_not_made_again(tmp_path: Path) -> None:
    pod = pod_with_transformers(tmp_path, "none")
    assert "transformers==5.16.1: installed in place of 5.15.1" in pod.run().log
    note = tmp_path / "opt/podwright/upgrades.json"
    noted = json.loads(note.read_text())
    assert noted["rows"] == [{"name": "transformers", "before": "5.15.1", "now": "5.16.1", "state": "unproved"}]
    assert noted["installer"] == [str(tmp_path / "opt/podwright/common/install-extra.sh"), str(tmp_path / "opt/podwright/engine-python")]
    note.write_text(json.dumps({**noted, "rows": [{**noted["rows"][0], "state": "tried"}]}))
    pod.add_distribution("transformers", "5.15.1")
    (tmp_path / "opt/site/transformers-5.16.1.dist-info/METADATA").unlink()
    (tmp_path / "opt/site/transformers-5.16.1.dist-info").rmdir()
    again = pod.run()
    assert "not tried again, the engine did not start with it; transformers 5.15.1 stays" in again.log and not again.fatal


def test_image_of_another_build_is_fatal_unless_the_pod_follows_a_repository(tmp_path: Path) -> None:
    assert "holds another build" in FakePod(tmp_path / "a", plan_with()).run("0" * 64).fatal
    follows = plan_with(publish=PublishPlan("owner/bundles", "p/publication.json", 30.0, "idle", "KEY", False))
    assert "older build" in FakePod(tmp_path / "b", follows).run("0" * 64).log


def test_desktop_without_password_is_refused_and_the_endpoint_still_starts(tmp_path: Path) -> None:
    pod = FakePod(tmp_path, plan_with(desktop=DesktopPlan(6080, "VNC_PASSWORD")))
    outcome = pod.run()
    assert "no remote desktop: the secret VNC_PASSWORD is empty" in outcome.log and outcome.code == 0


def test_expandable_segments_are_removed(tmp_path: Path) -> None:
    outcome = FakePod(tmp_path, plan_with()).run(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert "PYTORCH_CUDA_ALLOC_CONF" not in outcome.env


def test_second_run_forgets_what_the_first_exported(tmp_path: Path) -> None:
    pod = FakePod(tmp_path, plan_with())
    first = pod.run(FAKE_DRIVER="570.1").env
    second = pod.run(LD_LIBRARY_PATH=first["LD_LIBRARY_PATH"], HF_HUB_OFFLINE="1", VLLM_USE_FLASHINFER_SAMPLER="0")
    assert "compat" not in second.env.get("LD_LIBRARY_PATH", "") and "HF_HUB_OFFLINE" not in second.env


def test_unexpected_failure_is_held_open_too(tmp_path: Path) -> None:
    pod = FakePod(tmp_path, plan_with())
    pod.add_file("fake-bin/df", "#!/bin/bash\nexit 7\n", 0o755)
    outcome = pod.run()
    assert "phase disk failed at line" in outcome.fatal and outcome.code == 143


def test_cpu_profile_asks_for_no_gpu(tmp_path: Path) -> None:
    ports = NetworkPlan((), 8080, 18081, "127.0.0.1", (_free_port(),), ())
    outcome = FakePod(tmp_path, cpu_plan(network=ports)).run(FAKE_DRIVER="")
    assert outcome.code == 0 and "nvidia" not in outcome.log.lower()
