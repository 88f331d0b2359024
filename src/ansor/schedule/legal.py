"""What holds in every plan, whichever steps made it: checked after each step."""

from collections.abc import Iterator

from ansor.errors import ScheduleError
from ansor.ir.expr import Load
from ansor.ir.visit import loads
from ansor.schedule.plan import At, Nest, Plan


def check(step: object, plan: Plan, before: Plan | None = None) -> None:
    """Raise ScheduleError if a step broke what an earlier one built on.

    Given the (legal) plan before the step, only what the step can have broken is
    looked at again.
    """
    nests = plan.nests if before is None else _affected(plan, before)
    for nest in nests:
        if nest.at is not None:
            _check_place(step, plan, nest, nest.at)
    for nest in nests:
        _check_loops(step, nest)
        if nest.prefetches:
            _check_prefetches(step, plan, nest)
        if nest.follows:
            _check_follows(step, plan, nest)
        if nest.ahead:
            _check_ahead(step, plan, nest)
        if nest.at is not None:
            _check_readers(step, plan, nest, nest.at)
            _check_vectors(step, plan, nest)


def _affected(plan: Plan, before: Plan) -> tuple[Nest, ...]:
    """The nests whose legality a step may have changed: all if it added or removed a
    stage or moved one, else what it changed and what builds on that."""
    old = before.by_name
    if plan.by_name.keys() != old.keys():
        return plan.nests
    changed = {nest.name for nest in plan if nest is not old[nest.name]}
    if any(plan.by_name[name].at is not old[name].at for name in changed):
        return plan.nests
    read = {name for x in changed for name in plan.by_name[x].stage.read_names}
    return tuple(
        nest
        for nest in plan
        if nest.name in changed
        or nest.ahead
        or nest.prefetches
        or any(place.stage in changed for place in plan.inside(nest))
        or any(follow.stage in changed for follow in nest.follows)
        or (nest.at is not None and any(b.name in read for b in nest.stage.buffers))
    )


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


def _check_prefetches(step: object, plan: Plan, nest: Nest) -> None:
    for loop, buffer, _ in nest.prefetches:
        if loop not in nest.loops or buffer not in set(_read(nest)):
            raise ScheduleError(
                str(step),
                f"{buffer!r} is prefetched in loop {loop!r} of {nest.name!r}",
                "prefetch after this step",
            )
        if any(_gathers(load) for load in nest.reads() if load.buffer.name == buffer):
            raise ScheduleError(
                str(step),
                f"{buffer!r} is prefetched in loop {loop!r} of {nest.name!r}, but its "
                "index is loaded from memory",
                "prefetch a tensor with affine indices",
            )
        producer = plan.producer(buffer)
        if producer is not None and is_inside(plan, producer, At(nest.name, loop)):
            raise ScheduleError(
                str(step),
                f"{buffer!r} is prefetched in loop {loop!r} of {nest.name!r}, and "
                f"computed inside that loop",
                "prefetch in a loop further in, or what that stage reads",
            )


def _check_follows(step: object, plan: Plan, nest: Nest) -> None:
    for length in nest.follows:
        other = plan.by_name.get(length.stage)
        if other is None or length.loop not in other.nodes:
            raise ScheduleError(
                str(step),
                f"a split of {nest.name!r} follows loop {length.loop!r} of "
                f"{length.stage!r}",
                f"do this before {nest.name!r} is made or split",
            )


def _check_ahead(step: object, plan: Plan, nest: Nest) -> None:
    (source,) = _read(nest)
    if nest.at is not None or source not in plan.dag.constants:
        raise ScheduleError(
            str(step),
            f"{nest.name!r} is laid out ahead of time, outside the kernel",
            "use Pack in place of LayoutRewrite",
        )
    for other in plan:
        if other is not nest and source in _read(other):
            raise ScheduleError(
                str(step),
                f"{other.name!r} reads {source!r} too, which enters the kernel only as "
                f"{nest.name!r}",
                "use Pack in place of LayoutRewrite",
            )


def _check_place(step: object, plan: Plan, nest: Nest, place: At) -> None:
    outer = plan.by_name.get(place.stage)
    if outer is None or place.loop not in outer.loops:
        raise ScheduleError(
            str(step),
            f"{nest.name!r} is computed at loop {place.loop!r} of {place.stage!r}",
            f"do this first, then compute {nest.name!r} at a loop that remains",
        )


def _check_readers(step: object, plan: Plan, nest: Nest, place: At) -> None:
    for reader in plan.consumers(nest.stage.buffers):
        if reader.name != place.stage and not is_inside(plan, reader, place):
            raise ScheduleError(
                str(step),
                f"{reader.name!r} would read {nest.name!r} outside loop "
                f"{place.loop!r} of {place.stage!r}, where it is computed",
                f"move {nest.name!r} first, for example ComputeRoot({nest.name!r})",
            )


def _check_vectors(step: object, plan: Plan, nest: Nest) -> None:
    if "vectorize" not in nest.annotations.values():
        return
    for place in plan.inside(nest):
        outer = plan.nest(place.stage)
        around = outer.loops[: outer.loops.index(place.loop) + 1]
        for loop in around:
            if outer.annotations.get(loop) == "vectorize":
                raise ScheduleError(
                    str(step),
                    f"{nest.name!r} is vectorized, and computed inside vectorized loop "
                    f"{loop!r} of {outer.name!r}",
                    "vectorize one of the two",
                )


def _gathers(load: Load) -> bool:
    return any(True for index in load.indices for _ in loads(index))


def _read(nest: Nest) -> Iterator[str]:
    return (load.buffer.name for load in nest.reads())
