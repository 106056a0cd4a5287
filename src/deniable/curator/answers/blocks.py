"""What a text with something said over its releases leaves in the ledger, and the answer made of that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deniable.curator.answers.answer import Answer
from deniable.errors import InvalidQuery, NotComputed, Stopped, TooMany
from deniable.ledger.releases import Kept
from deniable.mechanism import Release
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.after.release import ReleasedBlock, block_of_run
from deniable.sql.after.released_run import ReleasedRun, serves
from deniable.sql.plan.plan import Plan
from deniable.units import Unit

FORMAT = 1
PAID = "What it reads was released and paid for, and is kept: ask anything else of the same result, free."


@dataclass(frozen=True)
class BlocksKept:
    """Released blocks, what they cost, and how long they were waited for."""

    release: Release[Sequence[ReleasedBlock]]
    confidence: float
    epsilon: float
    delta: float
    seconds: float = 0.0

    @classmethod
    def of(
        cls, release: Release[Sequence[ReleasedBlock]], confidence: float, epsilon: float, delta: float
    ) -> BlocksKept:
        return cls(release, confidence, epsilon, delta)

    def answer(self, after: Afterwards, *, again: bool) -> Answer:
        """What is said over the blocks. If that fails, it says why: it tells of released numbers only."""
        try:
            result = after.answer(self.release.value)
        except InvalidQuery as failure:
            raise NotComputed(f"{failure} {PAID}") from None
        except (Stopped, TooMany) as failure:
            raise type(failure)(f"{failure} {PAID}") from None
        bounds = {name: pair for block in self.release.value for name, pair in block.bounds.items()}
        bounding = None
        if len(self.release.value) == 1:
            bounding = self.release.value[0].bounding
        return Answer(
            result.table,
            self.release.loss,
            self.release.unit,
            None,
            self.release.entry,
            self.release.private,
            low=result.low,
            high=result.high,
            confidence=self.confidence,
            epsilon=self.epsilon,
            delta=self.delta,
            bounds=bounds,
            again=again,
            bounding=bounding,
            computed=result.computed,
        )

    def to_text(self, seconds: float) -> str:
        return json.dumps(
            {
                "format": FORMAT,
                "unit": self.release.unit.to_dict(),
                "blocks": [block.to_dict() for block in self.release.value],
                "confidence": self.confidence,
                "epsilon": self.epsilon,
                "delta": self.delta,
                "seconds": seconds,
            }
        )

    @staticmethod
    def text_of_run(run: ReleasedRun, answer: Answer, key: str, seconds: float) -> str:
        """What the answer to the question `key` leaves: itself, and the run that its numbers are of, from
        which the block is made when another text asks for it."""
        return json.dumps(
            {
                "format": FORMAT,
                "unit": answer.unit.to_dict(),
                "run": run.to_dict(),
                "confidence": answer.confidence,
                "epsilon": answer.epsilon,
                "delta": answer.delta,
                "seconds": seconds,
                "answers": {key: answer.to_text(seconds)},
            }
        )

    @staticmethod
    def serves(kept: Kept, plans: Sequence[Plan]) -> bool:
        """Whether blocks of these plans can be read from what was kept."""
        run = json.loads(kept.content).get("run")
        return run is None or serves(run, plans[0])

    @staticmethod
    def own_answer(kept: Kept, key: str) -> str | None:
        """The answer that was given to the question `key` when these blocks were released, as it was kept."""
        text: str | None = json.loads(kept.content).get("answers", {}).get(key)
        return text

    @classmethod
    def from_kept(cls, kept: Kept, entry: str, plans: Sequence[Plan]) -> BlocksKept:
        """What a ledger kept, to whom paid for it by `entry`; its seal has been checked. `plans` are those of
        the blocks."""
        content = json.loads(kept.content)
        blocks = _blocks(content, plans)
        unit = Unit.from_dict(content["unit"])
        release = Release(blocks, kept.loss, unit, None, entry, kept.private)
        return cls(release, content["confidence"], content["epsilon"], content["delta"], content["seconds"])


def _blocks(content: dict[str, Any], plans: Sequence[Plan]) -> Sequence[ReleasedBlock]:
    if "run" in content:
        return [block_of_run(ReleasedRun.from_dict(content["run"]), plans[0])]
    return [ReleasedBlock.from_dict(block) for block in content["blocks"]]
