"""What a text's release leaves in the ledger, and the answer made of that."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from deniable.curator.answers.answer import Answer
from deniable.errors import InvalidQuery, NotComputed, Stopped, TooMany
from deniable.ledger.releases import Kept
from deniable.mechanism import Release
from deniable.sql.after.afterwards import Afterwards
from deniable.sql.after.release import ReleasedBlock, ReleasedRun, ReleasedText, block_of_run, run_serves
from deniable.sql.plan.plan import Plan
from deniable.units import Unit

FORMAT = 1
PAID = "What it reads was released and paid for, and is kept: ask anything else of the same result, free."


@dataclass(frozen=True)
class PaidText:
    """What was released for a text and paid for: its own answer where nothing is said over the release, else
    its blocks. `run` holds the numbers of the answer for other texts that read the same block."""

    release: Release[Sequence[ReleasedBlock]]
    confidence: float
    epsilon: float
    delta: float
    seconds: float = 0.0
    own_answer: Answer | None = None
    run: ReleasedRun | None = None

    @classmethod
    def from_release(cls, release: Release[Any], confidence: float, epsilon: float, delta: float) -> PaidText:
        """From the release of a `ReleasedText`."""
        text: ReleasedText = release.value
        answer = None
        if text.result is not None:
            answer = Answer.from_release(replace(release, value=text.result), epsilon=epsilon, delta=delta)
        blocks = replace(release, value=text.blocks)
        return cls(blocks, confidence, epsilon, delta, own_answer=answer, run=text.run)

    def answer(self, after: Afterwards | None, *, again: bool) -> Answer:
        """What is said over the release. If that fails, it says why: it tells of released numbers only."""
        if after is None:
            assert self.own_answer is not None
            return replace(self.own_answer, again=again)
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

    def to_text(self, key: str, seconds: float) -> str:
        """What is kept: the blocks; or the answer to the question `key` beside the run that its numbers are
        of, from which the block is made when another text asks for it; or the answer alone."""
        if self.own_answer is not None and self.run is None:
            return self.own_answer.to_text(seconds)
        content = {
            "format": FORMAT,
            "unit": self.release.unit.to_dict(),
            "confidence": self.confidence,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "seconds": seconds,
        }
        if self.own_answer is not None and self.run is not None:
            content |= {"run": self.run.to_dict(), "answers": {key: self.own_answer.to_text(seconds)}}
        else:
            content |= {"blocks": [block.to_dict() for block in self.release.value]}
        return json.dumps(content)


@dataclass(frozen=True)
class KeptText:
    """A record of the ledger, its seal checked, as what `PaidText.to_text` wrote in it."""

    record: Kept

    @cached_property
    def _content(self) -> Mapping[str, Any]:
        content: Mapping[str, Any] = json.loads(self.record.content)
        return content

    def answer_to(self, key: str) -> Mapping[str, Any] | None:
        """The answer that was given to the question `key`, as it was kept."""
        if "value" in self._content:
            return self._content
        text = self._content.get("answers", {}).get(key)
        if text is None:
            return None
        answer: Mapping[str, Any] = json.loads(text)
        return answer

    @property
    def has_run(self) -> bool:
        return "run" in self._content

    def serves(self, plan: Plan) -> bool:
        """Whether the block of this plan can be read from the run that was kept."""
        return run_serves(self._content["run"], plan)

    def read_blocks(self, entry: str, make_plan: Callable[[], Plan]) -> PaidText:
        """The blocks, for whom paid for them by `entry`. A run is read by the plan of its block."""
        content = self._content
        if self.has_run:
            blocks = [block_of_run(ReleasedRun.from_dict(content["run"]), make_plan())]
        else:
            blocks = [ReleasedBlock.from_dict(block) for block in content["blocks"]]
        unit = Unit.from_dict(content["unit"])
        release: Release[Sequence[ReleasedBlock]] = Release(
            blocks, self.record.loss, unit, None, entry, self.record.private
        )
        cost = (content["confidence"], content["epsilon"], content["delta"])
        return PaidText(release, *cost, content["seconds"])

    def read_answer(self, entry: str, key: str) -> PaidText:
        """The answer to the question `key`, for whom paid for it by `entry`."""
        content = self.answer_to(key)
        assert content is not None
        answer = Answer.from_record(content, self.record, entry)
        release: Release[Sequence[ReleasedBlock]] = Release(
            (), answer.loss, answer.unit, None, entry, answer.private
        )
        cost = (answer.confidence, answer.epsilon, answer.delta)
        return PaidText(release, *cost, float(content.get("seconds", 0.0)), own_answer=answer)
