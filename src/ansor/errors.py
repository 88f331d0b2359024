"""What a caller can act on: what was asked, why not, and what to do."""


class AnsorError(Exception):
    """Base of every error this package raises on purpose.

    `what` was asked for, `reason` says why not, `hint` (optional) says what to do.
    Positional arguments keep errors picklable: worker processes raise them too.
    """

    def __init__(self, what: str, reason: str = "", hint: str = "") -> None:
        super().__init__(what, reason, hint)

    def __str__(self) -> str:
        what, reason, hint = self.args
        text = f"{what}: {reason}" if reason else str(what)
        return text + (f"\n  hint: {hint}" if hint else "")


class IRError(AnsorError):
    """A scalar expression or loop statement is malformed."""


class ExpressionError(AnsorError):
    """A tensor expression cannot be built as written."""


class ScheduleError(AnsorError):
    """A step does not apply to the program it was given."""


class TargetError(AnsorError):
    """A target is unknown, or its description contradicts itself."""


class CodegenError(AnsorError):
    """A lowered function cannot be turned into machine code for this target."""


class MeasureError(AnsorError):
    """Something cannot be measured as asked."""


class ArgumentError(AnsorError):
    """A kernel was called with arguments it cannot take."""


class RecordError(AnsorError):
    """A record or its database cannot be read, written or trusted."""


class CostError(AnsorError):
    """A cost model cannot be made, read, or applied to these features."""


class ModelError(AnsorError):
    """A model cannot be read, or contradicts itself."""


class UnsupportedError(ModelError):
    """A model uses what is not implemented; it names operator and attribute."""
