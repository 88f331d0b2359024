"""Options of `torch.compile(module, backend="ansor", options={…})`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike, fspath

from ansor.errors import ModelError
from ansor.frontend.ways import MEMORY, checked

SECONDS = 60.0  # of tuning, where none were given


@dataclass(frozen=True)
class Options:
    """What a user may choose; see `docs/` for the names in `torch.compile`.

    Without any, kernels are the analytic model's choice: nothing is measured. With a
    database, they are the best it has for this machine. With `seconds` or `trials`,
    each graph is tuned for so long before it first runs, and the database (one of
    the process, if none is given) keeps what was found. `tune=False` forbids that.
    """

    seconds: float | None = None  # of tuning, for each graph
    trials: int | None = None  # measurements, for each graph
    database: str | None = None
    tune: bool | None = None  # unless given: whether there is a budget
    freeze: bool = True  # parameters and buffers are constants, laid out ahead
    alternatives: Sequence[str] | None = None  # as `ansor.Model` takes them
    memory: float | None = MEMORY  # as `Model.compile` takes it, for each graph

    @classmethod
    def read(cls, given: Mapping[str, object] | None) -> Options:
        """Raises ModelError for a name or a value that is not known."""
        known = [field.name for field in fields(cls)]
        found = dict(given or {})
        for name in found:
            if name not in known:
                raise ModelError(
                    f"option {name!r}", "is unknown", f"options: {', '.join(known)}"
                )
        place = found.get("database")
        if isinstance(place, PathLike):
            found["database"] = fspath(place)
        for name, value in found.items():
            if value is not None:
                _check(name, value)
        options = cls(**found)  # type: ignore[arg-type]
        checked(options.memory)
        return options

    @property
    def wants_tuning(self) -> bool:
        if self.tune is None:
            return self.seconds is not None or self.trials is not None
        return self.tune

    @property
    def budget(self) -> tuple[float | None, int | None]:
        """Seconds and trials; some seconds if neither was given."""
        if self.seconds is None and self.trials is None:
            return SECONDS, None
        return self.seconds, self.trials


def _check(name: str, value: object) -> None:
    kinds = _KINDS[name]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ModelError(f"option {name!r}", f"{value!r} is of the wrong type")
    if isinstance(value, int | float) and bool not in kinds and not value > 0:
        raise ModelError(f"option {name!r}", f"{value!r} is not above 0")


_KINDS: dict[str, tuple[type, ...]] = {
    "seconds": (int, float),
    "trials": (int,),
    "database": (str, PathLike),
    "tune": (bool,),
    "freeze": (bool,),
    "alternatives": (str, list, tuple),
    "memory": (int, float),
}
