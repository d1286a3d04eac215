"""Commands as people paste them from what Loglake printed."""

from __future__ import annotations

import re


def commands_in(said: str) -> list[str]:
    """The commands between backticks in a text, each once; one that waits for another is two."""
    spans = [" ".join(span.split()) for span in re.findall(r"`(loglake [^`]+)`", said)]
    return list(dict.fromkeys(part for span in spans for part in span.split(" && ")))
