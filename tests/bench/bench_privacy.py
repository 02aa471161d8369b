"""Personal data in texts by a writer who knew what the docs claim and no rule: recall and precision per kind.

The rules were changed after these texts had been read: the figures are no longer of texts apart. What they were before
stands in docs/mining.md.
"""

from saferec_builder.mining import privacy
from tests.bench.figures import figure
from tests.worlds.privacy_lines import measured, strangers

EXACT = ("email", "url", "card", "ip")


def main() -> None:
    marked, covered, found, right = measured(strangers(), privacy.find)
    claimed = [kind for kind in privacy.KINDS if kind != "address"]

    def recall(*kinds: str) -> float:
        return sum(covered[kind] for kind in kinds) / sum(marked[kind] for kind in kinds)

    figure("privacy.claimed_recall", recall(*claimed), "of all", ">= .85")
    figure("privacy.precision", sum(right.values()) / sum(found.values()), "of all", ">= .93")
    figure("privacy.exact_recall", min(recall(kind) for kind in EXACT), "worst", ">= .90")
    figure("privacy.name_recall", recall("name"), "of all", ">= .80")
    figure("privacy.address_recall", recall("address"), "of all", "none: apart")
    for kind in privacy.KINDS:
        print(f"  {kind}: {covered[kind]} of {marked[kind]}, {right[kind]} of {found[kind]} found right")
