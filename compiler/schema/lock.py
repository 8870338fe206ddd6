"""`specs/locks/<profile>.yaml`: what `podwright lock` resolved on the Hub and at registries."""

from __future__ import annotations

from pydantic import Field

from compiler.schema.base import Bytes, Date, Digest, HubSha, Spec


class LockedRepo(Spec):
    """One Hub repository at one commit."""

    revision: HubSha = Field(description="Commit that the repository's default branch pointed at.")
    size: Bytes | None = Field(None, description="Bytes of all files at that commit.")
    safetensors: Bytes | None = Field(None, description="Bytes of all safetensors files at that commit.")


class LockSpec(Spec):
    """Commits, digests and sizes of one profile."""

    kind: str = Field("lock", pattern="^lock$", description="Always `lock`.")
    resolved: Date | None = Field(None, description="When it was resolved.")
    repos: dict[str, LockedRepo] = Field(default_factory=dict, description="Hub repositories by owner/name.")
    images: dict[str, Digest] = Field(default_factory=dict, description="Digests by image repository:tag.")

    def over(self, other: LockSpec) -> LockSpec:
        """This lock with the entries of `other` where it has none: a swap profile's lock over those of its members."""
        return LockSpec(kind="lock", resolved=self.resolved or other.resolved, repos={**other.repos, **self.repos}, images={**other.images, **self.images})
