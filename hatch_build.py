"""What a built package says about where it comes from.

The address of the repository is known to whoever releases (DENIABLE_REPOSITORY), not to this code. With it, a wheel
has project links, and the links of its README lead there; without it, the README is as it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)\s]+\))")


def absolute(text: str, base: str) -> str:
    """The text with every relative Markdown link, and every picture, leading to `base`."""
    return RELATIVE.sub(rf"\g<1>{base}/\g<2>", text)


class ProjectLinks(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        address = os.environ.get("DENIABLE_REPOSITORY", "").rstrip("/")
        if address:
            text = absolute(text, f"{address}/blob/main")
            metadata["urls"] = {
                "Source": address,
                "Issues": f"{address}/issues",
                "Changelog": f"{address}/blob/main/CHANGELOG.md",
                "Security": f"{address}/security/policy",
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
