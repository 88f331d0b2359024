"""What holds in every plan, whichever steps made it: checked after each step."""

from collections.abc import Iterator

from ansor.errors import ScheduleError
from ansor.schedule.plan import At, Nest, Plan


def check(step: object, plan: Plan) -> None:
    """Raise ScheduleError if a step broke what an earlier one built on."""
    for nest in plan:
        _check_loops(step, nest)
        _check_prefetches(step, nest)
        if nest.at is not None:
            _check_place(step, plan, nest, nest.at)


def readers(plan: Plan, nest: Nest) -> list[Nest]:
    """Nests that read it, and the nests those are computed in."""
    found = list(plan.consumers(nest.stage.buffers))
    for reader in tuple(found):
        found += [plan.nest(place.stage) for place in plan.inside(reader)]
    return found


def is_inside(plan: Plan, nest: Nest, place: At) -> bool:
    """True if a nest is computed within (or at) a loop, directly or not."""
    for where in plan.inside(nest):
        loops = plan.nest(where.stage).loops
        same = where.stage == place.stage
        if same and loops.index(where.loop) >= loops.index(place.loop):
            return True
    return False


def _check_loops(step: object, nest: Nest) -> None:
    for loop, kind in nest.annotations.items():
        if loop not in nest.loops:
            raise ScheduleError(
                str(step), f"loop {loop!r} is {kind}", "annotate after this step"
            )


def _check_prefetches(step: object, nest: Nest) -> None:
    for loop, buffer, _ in nest.prefetches:
        if loop not in nest.loops or buffer not in set(_read(nest)):
            raise ScheduleError(
                str(step),
                f"{buffer!r} is prefetched in loop {loop!r} of {nest.name!r}",
                "prefetch after this step",
            )


def _check_place(step: object, plan: Plan, nest: Nest, place: At) -> None:
    outer = next((n for n in plan if n.name == place.stage), None)
    if outer is None or place.loop not in outer.loops:
        raise ScheduleError(
            str(step),
            f"{nest.name!r} is computed at loop {place.loop!r} of {place.stage!r}",
            f"do this first, then compute {nest.name!r} at a loop that remains",
        )
    for reader in plan.consumers(nest.stage.buffers):
        if reader.name != place.stage and not is_inside(plan, reader, place):
            raise ScheduleError(
                str(step),
                f"{reader.name!r} would read {nest.name!r} outside loop "
                f"{place.loop!r} of {place.stage!r}, where it is computed",
                f"move {nest.name!r} first, for example ComputeRoot({nest.name!r})",
            )


def _read(nest: Nest) -> Iterator[str]:
    return (load.buffer.name for load in nest.reads())
