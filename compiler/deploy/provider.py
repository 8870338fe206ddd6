"""What a place that runs pods can do, whatever it is called: records, and the interface that every provider keeps.

A provider is a thin thing: it asks, parses tolerantly and raises `ProviderError`s. What to try next, how long to wait and when to
give up is decided elsewhere (`create`, `watch`, `life`), so that it is decided once. Money is USD, times are seconds since 1970.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from compiler.plan import Plan


Action: TypeAlias = Literal["stop", "start", "restart", "terminate"]
Cloud: TypeAlias = Literal["SECURE", "COMMUNITY"]
LogSource: TypeAlias = Literal["system", "container"]


class PodStatus(enum.StrEnum):
    """Where a pod's container is in its life, as the provider sees it. RUNNING says nothing about what runs in it."""

    PROVISIONING = "PROVISIONING"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    EXITED = "EXITED"
    ERROR = "ERROR"
    TERMINATED = "TERMINATED"
    UNKNOWN = "UNKNOWN"

    @property
    def bills(self) -> bool:
        """Whether the GPU is paid for; a status that nobody knows is taken for one that costs."""
        return self not in (PodStatus.EXITED, PodStatus.TERMINATED)


class Stock(enum.StrEnum):
    """How much of a GPU is free. UNKNOWN where the provider does not say."""

    NONE = "NONE"
    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    UNKNOWN = "UNKNOWN"


@dataclasses.dataclass(frozen=True, slots=True)
class CudaPin:
    """Which host CUDA versions are wanted: an exact list, or a floor. Neither takes any host."""

    exact: tuple[str, ...] = ()
    floor: str | None = None

    def __str__(self) -> str:
        return f">={self.floor}" if self.floor else " or ".join(self.exact) if self.exact else "any"

    def admits(self, version: str) -> bool:
        """Whether a host of that version would do. Versions are numbers by part: 12.11 is above 12.2."""
        if self.floor is not None:
            return cuda_key(version) >= cuda_key(self.floor)
        return not self.exact or cuda_key(version) in {cuda_key(v) for v in self.exact}


def cuda_key(version: str) -> tuple[int, ...]:
    """A CUDA version as it compares; () for a text that is none, which is below all."""
    parts = version.strip().split(".")
    return tuple(int(p) for p in parts[:2]) if parts and all(p.isdecimal() for p in parts) else ()


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to ask for: so many of a GPU in a cloud, in one data center (None: any), on a host with that CUDA."""

    gpu_id: str
    count: int
    cloud: Cloud
    data_center: str | None
    cuda: CudaPin

    @property
    def place(self) -> str:
        """The candidate without count and pin: what a bad host is remembered by."""
        return f"{self.gpu_id} / {self.cloud} / {self.data_center or 'any data center'}"

    def __str__(self) -> str:
        return f"{self.count} x {self.gpu_id}, {self.cloud}, {self.data_center or 'any data center'}, CUDA {self.cuda}"


@dataclasses.dataclass(frozen=True, slots=True)
class StockQuestion:
    """What the catalogue is asked for: stock of `count` GPUs in a cloud, on hosts of that CUDA."""

    cloud: Cloud
    count: int
    cuda: CudaPin = dataclasses.field(default_factory=CudaPin)


@dataclasses.dataclass(frozen=True, slots=True)
class GpuOffer:
    """A row of the catalogue. Prices are the list prices of one GPU an hour.

    `centers` holds the stock by data center; a data center that is not in it has none, unless `centers_known` is false. `cuda` maps
    each version that hosts report to whether one of them is free; it is empty where the provider does not say.
    """

    id: str
    name: str
    memory_gb: int | None
    stock: Stock
    prices: Mapping[Cloud, float]
    centers: Mapping[str, Stock]
    cuda: Mapping[str, bool]
    max_count: Mapping[Cloud, int]
    centers_known: bool = True

    def stock_in(self, center: str | None) -> Stock:
        """Stock in one data center, or anywhere."""
        if center is None:
            return self.stock
        return self.centers.get(center, Stock.NONE) if self.centers_known else Stock.UNKNOWN


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod as its provider describes it. None where the provider said nothing, or something that cannot be read.

    `fields` is what it was created with, by the names of `Wanted.fields`; a difference needs a new pod. `machine` names the host where
    the provider tells it.
    """

    id: str
    name: str
    status: PodStatus
    gpu_id: str | None = None
    gpu_count: int | None = None
    cloud: str | None = None
    data_center: str | None = None
    cuda: str | None = None
    price_usd_h: float | None = None
    created: float | None = None
    started: float | None = None
    uptime_s: float | None = None
    machine: str | None = None
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A template of the account: what the provider's console offers to start. `fields` as for `Pod`."""

    id: str
    name: str
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a pod's log. `at` is the provider's own time stamp, "" where it gives none."""

    at: str
    source: LogSource
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class Charge:
    """What a pod cost from `start` to `end`."""

    start: float
    end: float
    usd: float


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A bundle to be applied: the plan, the pod's whole argv, and the sha256 of the manifest in it."""

    plan: Plan
    command: tuple[str, ...]
    manifest: str


class Provider(Protocol):
    """A place that runs pods. Every method may raise a `ProviderError`; none of them waits, except for what a server asks for.

    What a place does not have is None: no catalogue and no charges where nothing is rented, no templates where there is no console,
    no secret names where they cannot be listed.
    """

    name: str

    def catalogue(self, question: StockQuestion) -> tuple[GpuOffer, ...] | None:
        """What can be rented, with prices and stock."""
        ...

    def template(self, name: str) -> Template | None:
        """The account's own template of that name; None where there is none, or no templates at all."""
        ...

    def write_template(self, wanted: Wanted, existing: Template | None) -> Template | None:
        """Create the template, or change the existing one; None where there are no templates."""
        ...

    def template_fields(self, wanted: Wanted) -> Mapping[str, str] | None:
        """What a template of `wanted` would hold, to be compared; None where there are no templates."""
        ...

    def pod_fields(self, wanted: Wanted) -> Mapping[str, str]:
        """What a pod of `wanted` would hold, to be compared."""
        ...

    def pods(self) -> list[Pod]:
        """All pods of the account that still exist, stopped ones included."""
        ...

    def pod(self, pod_id: str) -> Pod:
        """One pod. Raises Missing when it is gone."""
        ...

    def create(self, wanted: Wanted, name: str, candidate: Candidate) -> Pod:
        """Ask once for one candidate. Never asks a second time: after a failure somebody must look whether it happened."""
        ...

    def act(self, pod: Pod, action: Action) -> None:
        """Stop, start, restart or terminate. Terminating what is gone is a success."""
        ...

    def logs(self, pod_id: str, *, tail: int, source: LogSource | None = None, follow: bool = False) -> Iterator[LogLine]:
        """The last `tail` lines, oldest first, and with `follow` those that come after them, until the pod is gone. A pod that has
        not logged anything gives nothing. Raises Unsupported where the interface has no logs."""
        ...

    def secret_names(self) -> frozenset[str] | None:
        """Names of the secrets that a pod can be given."""
        ...

    def registry_credential(self, name: str, username: str, password: str) -> str | None:
        """The id of the credential of that name for private images, made where there is none. Nobody can read it again, so a name stands
        for one password. None where images are not pulled with such a thing."""
        ...

    def charges(self, pod_id: str, since: float) -> list[Charge] | None:
        """What a pod cost since then, from the provider's own records."""
        ...

    def endpoint(self, pod: Pod, port: int) -> str:
        """The public address of an http port."""
        ...

    def skew_s(self) -> float:
        """How far this machine's clock is ahead of the provider's, by its last answer; 0 where it does not say."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...
