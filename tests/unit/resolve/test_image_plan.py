"""The image plan: the base of the recipe, extras once each, labels, names."""

from __future__ import annotations

from compiler.plan.core import Plan
from compiler.resolve import resolve_plan
from tests.support import REMOVE, Changes, specset

DIGEST = "sha256:" + "0123456789abcdef" * 4


def plan(changes: Changes | None = None, base: str = "nemotron-ada") -> Plan:
    return resolve_plan(specset(base, changes))


def test_recipe_decides_the_base() -> None:
    images = {image.recipe: image for image in specset("nemotron-ada").engine.images}
    for recipe, image in images.items():
        decided = plan({"profile": {"container.recipe": recipe}}).image
        assert (decided.base, decided.venv, decided.python, decided.public_entrypoint) == (image.image, image.venv, image.python, image.public_entrypoint)


def test_a_recipe_without_base_still_gives_a_plan() -> None:
    assert plan({"profile": {"container.recipe": "vllm-cpu"}}).image.base == specset("nemotron-ada").engine.images[0].image


def test_digest_pins_the_base() -> None:
    image = {"recipe": "vllm-venv", "image": "a/b:1", "digest": DIGEST, "python": "3.12", "venv": "/opt/venv", "has_nvcc": False, "public_entrypoint": False}
    pinned = plan({"engine": {"images": [image]}}).image
    assert pinned.base_reference == f"a/b:1@{DIGEST}"
    assert plan({"engine": {"images": [image | {"digest": None}]}}).image.base_reference == "a/b:1"


def test_extras_come_once_each_and_lmcache_with_its_store() -> None:
    decided = plan({"profile": {"container.extras": ["fastokens", "fastokens", "unheard-of"], "kv_store": {"size_gib": 8, "chunk": 256}}}).image
    assert [p.requirement.partition("==")[0] for p in decided.packages] == ["fastokens", "lmcache"]
    again = plan({"profile": {"container.extras": ["lmcache"], "kv_store": {"size_gib": 8, "chunk": 256}}}).image
    assert [p.requirement.partition("==")[0] for p in again.packages] == ["lmcache"]


def test_names() -> None:
    assert plan().image.name == "podwright/nemotron-ada:0.27.1"
    assert plan({"profile": {"container.name": "r.example/x:1"}}).image.name == "r.example/x:1"
    bare = plan({"profile": {"container.prebaked": False}}).image
    assert bare.name == bare.base


def test_cuda_pieces_follow_the_release() -> None:
    decided = plan({"engine": {"cuda": "12.9"}}).image
    assert (decided.cuda_home, decided.compat_dir) == ("/usr/local/cuda-12.9", "/usr/local/cuda-12.9/compat")
    assert all("{" not in p.name for p in decided.cuda_apt)
    assert "cuda-nvcc-12-9" in {p.name for p in decided.cuda_apt}
    none = plan(base="tiny-cpu").image
    assert (none.cuda_home, none.compat_dir, none.cuda_apt) == (None, None, ())


def test_labels_say_what_the_image_holds() -> None:
    labels = {label.name: label.value for label in plan({"engine": {"cuda": REMOVE}}).image.labels}
    assert (labels["dev.podwright.engine"], labels["dev.podwright.profile"], labels["dev.podwright.cuda"]) == ("vllm==0.27.1", "nemotron-ada", "none")


def test_the_tool_that_binds_to_numa_nodes_is_in_the_image_of_a_profile_that_binds() -> None:
    """The nodes are named because a container does not see which GPU belongs to which."""
    bound = plan({"profile": {"engine_args": {"numa_bind": {"value": True, "reason": "x"}, "numa_bind_nodes": {"value": [0, 1], "reason": "x"}}}})
    assert "numactl" in [package.name for package in bound.image.build_apt]
    at = bound.engine.argv.index("--numa-bind-nodes")
    assert bound.engine.argv[at + 1 : at + 3] == ("0", "1") and "--numa-bind" in bound.engine.argv
    assert "numactl" not in [package.name for package in plan().image.build_apt]
