"""Which steps of a job are recorded, as torch.profiler.schedule says it."""

from __future__ import annotations

import enum
from typing import Any, Callable


class ProfilerAction(enum.Enum):
    """What is done during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    @property
    def is_recording(self) -> bool:
        return self in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """The action of a step, by its number. `skip_first` steps are left out; then come cycles of `wait`, `warmup` and `active` steps, of
    which the active ones are recorded. `repeat`: so many cycles, 0 for no end. `skip_first_wait`: not 0 for a first cycle without `wait`."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise ValueError("a schedule needs wait, warmup, repeat and skip_first of 0 or more, and active of 1 or more; "
                         f"it was given {wait=}, {warmup=}, {active=}, {repeat=}, {skip_first=}")
    length = wait + warmup + active

    def action_of(step: int) -> ProfilerAction:
        since = step - skip_first
        if since < 0:
            return ProfilerAction.NONE
        cycle, place = divmod(since + wait if skip_first_wait else since, length)
        if place < wait or 0 < repeat <= cycle:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action_of


def action_named(action: Any) -> ProfilerAction:
    """A schedule may be torch's own, or give torch's own actions: these have the same names."""
    return ProfilerAction[action.name]
