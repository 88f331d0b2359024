"""Line charts as SVG, of nothing but text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 36, 46  # margins; the names stand at the right
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
)  # fmt: skip
DASHES = ("", "6 3", "2 2", "8 3 2 3", "1 3", "10 4", "4 4")
TICKS = 6  # about


def chart(
    title: str, across: str, up: str, series: Mapping[str, Points], top: float = 0.0
) -> str:
    """A chart of lines that change in steps, from zero on both axes.

    Each is a list of (x, y) in order of x and keeps its y until the next x. `top` is
    the least height of the vertical axis. Colours differ for the colour-blind, too.
    """
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, y in points]
    area = Area(max(xs, default=1.0) or 1.0, max([*ys, top], default=1.0) or 1.0)
    parts = [
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        *axes(area, across, up),
    ]
    for number, (name, points) in enumerate(series.items()):
        parts += line(area, number, name, points)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


class Area:
    """Where values lie on the page."""

    def __init__(self, right: float, top: float) -> None:
        self.right, self.top = right, top

    def x(self, value: float) -> float:
        return round(LEFT + value / self.right * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM), 1)


def axes(area: Area, across: str, up: str) -> list[str]:
    low, left = area.y(0), area.x(0)
    found = []
    for value in ticks(area.right):
        x = area.x(value)
        found.append(
            f'<text x="{x}" y="{low + 15}" text-anchor="middle">{value:g}</text>'
        )
    for value in ticks(area.top):
        y = area.y(value)
        found.append(
            f'<path d="M{left} {y}H{area.x(area.right)}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{value:g}</text>'
        )
    middle = (area.x(0) + area.x(area.right)) / 2
    half = (area.y(0) + area.y(area.top)) / 2
    return [
        *found,
        f'<path d="M{left} {area.y(area.top)}V{low}H{area.x(area.right)}" '
        'fill="none" stroke="black"/>',
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}'
        "</text>",
        f'<text transform="translate(16 {half}) rotate(-90)" text-anchor="middle">'
        f"{escape(up)}</text>",
    ]


def ticks(end: float) -> list[float]:
    """Round numbers from 0 to `end`."""
    step = 10 ** floor(log10(end / TICKS))
    while end / step > TICKS:
        step *= 2.5 if str(step).strip("0.")[:1] == "2" else 2
    return [round(n * step, 10) for n in range(ceil(end / step) + 1) if n * step <= end]


def line(area: Area, number: int, name: str, points: Points) -> list[str]:
    """A line of steps, and its name at the right."""
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number % len(DASHES)]
    style = (
        f'fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"'
    )
    y, at = TOP + 14 * (number + 1), WIDTH - RIGHT + 12
    found = [
        f'<path d="M{at} {y - 4}h24" {style}/>',
        f'<text x="{at + 30}" y="{y}">{escape(name)}</text>',
    ]
    if points:
        start, *rest = points
        path = f"M{area.x(start[0])} {area.y(start[1])}"
        path += "".join(f"H{area.x(x)}V{area.y(y)}" for x, y in rest)
        path += f"H{area.x(area.right)}"
        found.append(f'<path d="{path}" {style}/>')
    return found
