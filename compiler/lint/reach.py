"""How far an error of a rule is proved: engine releases and cards.

A rule that is not named here speaks of no engine release: of specs, artifacts, hosts, or of what the release's own flag snapshot says.
``checked`` is the newest release in whose source, or by whose start, the errors were seen. For a later one the runner makes them
warnings that say so, and ENG022 names the rules whose silence proves nothing there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

Version = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """``since`` and ``until`` bound the releases on which a rule looks at all (``until`` is the first without the cause);
    ``lowest`` and ``highest`` the compute capabilities, as 89 for 8.9."""

    checked: Version
    since: Version = ()
    until: Version | None = None
    lowest: int = 0
    highest: int = 999

    @property
    def all_cards(self) -> bool:
        """True where the card makes no difference."""
        return (self.lowest, self.highest) == (0, 999)

    def covers_release(self, release: Version) -> bool:
        """True for a release on which the rule has something to say."""
        return release >= self.since and (self.until is None or release < self.until)

    def covers_card(self, capability: int) -> bool:
        """True for a card on which the rule has something to say."""
        return self.lowest <= capability <= self.highest

    def is_proved(self, release: Version) -> bool:
        """True up to the newest release that was looked at."""
        return release <= self.checked

    @property
    def text(self) -> str:
        """The bounds in words, for a rule's page."""
        parts = [f"errors checked up to vLLM {dotted(self.checked)}"]
        parts += [f"looks from {dotted(self.since)} on"] if self.since else []
        parts += [f"gone in {dotted(self.until)}"] if self.until else []
        if not self.all_cards:
            low, high = f"{self.lowest / 10:.1f}", f"{self.highest / 10:.1f}"
            bound = "" if low == high else " and later" if self.highest == 999 else f" to {high}"
            parts.append(f"compute capability {low}{bound}")
        return "; ".join(parts)


def dotted(version: Version) -> str:
    """(0, 27, 1) as 0.27.1."""
    return ".".join(str(part) for part in version)


_027, _033 = (0, 27, 1), (0, 33, 0)
REACH: Mapping[str, Reach] = {
    "CTX001": Reach(_033),
    "CTX003": Reach(_027),
    "CTX004": Reach(_033),
    "CTX009": Reach(_033, since=(0, 26)),
    "CTX010": Reach(_033),
    "CTX011": Reach((0, 26, 0), until=(0, 27)),
    "CTX015": Reach(_027),
    "ENG023": Reach(_033),
    "ENG024": Reach(_033),
    "ENG025": Reach(_033),
    "KVC001": Reach(_033),
    "KVC003": Reach(_027, lowest=89, highest=89),
    "KVC004": Reach(_027),
    "KVC005": Reach(_027),
    "KVC007": Reach(_033),
    "KVC010": Reach(_033),
    "KVC016": Reach(_027),
    "KVC019": Reach(_027),
    "KVC021": Reach(_033),
    "KVC022": Reach(_033),
    "MDL004": Reach(_033),
    "MDL005": Reach(_027),
    "MDL007": Reach(_033),
    "MDL008": Reach(_033),
    "MDL017": Reach(_033),
    "MEM003": Reach(_033),
    "MEM013": Reach(_033),
    "QNT004": Reach(_027),
    "QNT007": Reach(_033),
    "QNT008": Reach(_027),
    "QNT011": Reach(_033),
    "QNT015": Reach(_027, lowest=120),
    "QNT018": Reach(_033),
    "QNT019": Reach(_033),
    "QNT020": Reach(_033),
    "QNT021": Reach(_027, since=(0, 27), until=(0, 33), lowest=120, highest=129),
    "SPD003": Reach(_033),
    "SPD004": Reach(_027),
    "SPD005": Reach(_033),
    "SPD007": Reach(_027),
    "SPD008": Reach(_027),
    "SPD011": Reach(_033),
    "SPD014": Reach(_033),
    "SPD015": Reach(_027, until=(0, 33)),
    "SPD016": Reach(_033),
}


def unproved(release: Version, capability: int) -> list[str]:
    """Codes of the rules that speak of this card and were not checked on this release, in order."""
    return sorted(code for code, reach in REACH.items() if reach.covers_release(release) and reach.covers_card(capability) and not reach.is_proved(release))
