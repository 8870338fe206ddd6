"""The container image: base, packages, labels."""

from __future__ import annotations

from compiler.plan.core import AptPackage, EnvVar, ImagePlan, Package
from compiler.resolve.ledger import Ledger
from compiler.resolve.system_packages import build_apt
from compiler.schema.engine import BaseImage
from compiler.schema.specset import SpecSet

# CUDA pieces that FlashInfer, humming and Marlin compile with at start (bootstrap notes). libcurand-dev is the right
# name: there is no cuda-curand-dev.
_TOOLKIT = (
    ("cuda-nvcc-{v}", "compiler for kernels that are built at start"),
    ("libcurand-dev-{v}", "curand.h, without which FlashInfer's sampler stops the server"),
    ("libcublas-dev-{v}", "cuBLAS headers"),
    ("cuda-cccl-{v}", "cuda/std headers"),
    ("cuda-cudart-dev-{v}", "CUDA runtime headers"),
    ("libcusparse-dev-{v}", "cuSPARSE headers"),
    ("libcusolver-dev-{v}", "cuSOLVER headers"),
)
_COMPAT = ("cuda-compat-{v}", "forward compatibility for hosts whose driver is older than the image's CUDA; used only there")


def resolve_image(specs: SpecSet, ledger: Ledger) -> ImagePlan:
    """What is baked, from which base, under which name."""
    container, engine = specs.profile.container, specs.engine
    ledger.section("image", container, "container")
    base = base_image(specs)
    digest = base.digest or specs.lock.images.get(base.image)
    where = str(specs.place("engine", "images"))
    ledger.record("image.base", f"{base.image}@{digest}" if digest else base.image, "engine", where, base.note or f"Base of the {container.recipe} recipe for release {engine.release}.")
    name = container.name or (base.image if not container.prebaked else f"podwright/{specs.name}:{engine.release}")
    ledger.computed("image.name", name, "The image that the pod runs." if container.prebaked else "Nothing is baked: the pod starts from the public base and installs at boot.")
    cuda = engine.cuda
    dashed = cuda.replace(".", "-") if cuda else ""
    return ImagePlan(
        recipe=container.recipe, prebaked=container.prebaked, base=base.image, base_digest=digest, name=name,
        name_digest=specs.lock.images.get(name), python=base.python, venv=base.venv, distribution=engine.distribution, release=engine.release, lock_file=engine.lock,
        packages=_packages(specs), build_apt=build_apt(container.recipe, base.python, binds_numa="numa_bind" in specs.profile.engine_args), cuda_apt=tuple(AptPackage(n.format(v=dashed), why) for n, why in (_COMPAT, *_TOOLKIT)) if cuda else (),
        cuda_home=f"/usr/local/cuda-{cuda}" if cuda else None, compat_dir=f"/usr/local/cuda-{cuda}/compat" if cuda else None, public_entrypoint=base.public_entrypoint,
        ssh=container.ssh, desktop=specs.profile.desktop is not None, labels=_labels(specs),
        torch=engine.torch if container.recipe == "vllm-cpu" else None, exact_release=not engine.preview,
    )  # fmt: skip


def base_image(specs: SpecSet) -> BaseImage:
    """The base of the profile's recipe; the release's first base when it has none for it (a rule reports that)."""
    wanted = specs.profile.container.recipe
    return next((image for image in specs.engine.images if image.recipe == wanted), specs.engine.images[0])


def _packages(specs: SpecSet) -> tuple[Package, ...]:
    """The extras that the profile names, and the KV store's, once each. An unknown name is a rule's business."""
    wanted = dict.fromkeys((*specs.profile.container.extras, *(("lmcache",) if specs.profile.kv_store else ())))
    known = specs.engine.extras
    return tuple(Package(known[name].requirement, known[name].why) for name in wanted if name in known)


def _labels(specs: SpecSet) -> tuple[EnvVar, ...]:
    """Labels that say what an image holds without starting it."""
    return (
        EnvVar("org.opencontainers.image.title", f"podwright {specs.profile.container.recipe}"),
        EnvVar("org.opencontainers.image.description", f"{specs.engine.distribution} {specs.engine.release} with the podwright runtime"),
        EnvVar("dev.podwright.engine", f"{specs.engine.distribution}=={specs.engine.release}"),
        EnvVar("dev.podwright.cuda", specs.engine.cuda or "none"),
        EnvVar("dev.podwright.profile", specs.name),
    )
