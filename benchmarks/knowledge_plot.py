"""How far scores of knowledge can be believed, drawn as SVG that is read on light and dark pages alike.

python benchmarks/knowledge_plot.py results/knowledge_ranking.json ../docs/images/knowledge-reliability.svg
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tool_search_plot import STYLE, text

SIZE, LEFT, TOP, HEIGHT = 300, 60, 40, 400
LARGEST: Final = 16.0
"""Radius of a dot for half of the hits."""

Bin = Mapping[str, float]


def save_plot(path: Path, bins: Sequence[Bin]) -> None:
    """A dot a bin, its area by its share of the hits; on the diagonal scores are as often right as they say."""
    path.write_text(_svg(bins), "utf-8")


def _svg(bins: Sequence[Bin]) -> str:
    title = "Score of a hit, and how often hits of that score answer the query"

    def x(value: float) -> float:
        return LEFT + SIZE * value

    def y(value: float) -> float:
        return TOP + SIZE * (1.0 - value)

    marks = [step / 5 for step in range(6)]
    drawn = [
        f'<line class="grid" x1="{LEFT}" x2="{LEFT + SIZE}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>' for mark in marks
    ]
    drawn += [text(LEFT - 8, y(mark) + 4, f"{mark:g}", "end") for mark in marks]
    drawn += [text(x(mark), TOP + SIZE + 20, f"{mark:g}", "middle") for mark in marks]
    drawn.append(f'<polyline class="c p95" points="{x(0)},{y(0)} {x(1)},{y(1)}"/>')
    points = " ".join(f"{x(it['score']):.1f},{y(it['answered']):.1f}" for it in bins)
    drawn.append(f'<polyline class="a" points="{points}"/>')
    drawn += [
        f'<circle class="dot a" cx="{x(it["score"]):.1f}" cy="{y(it["answered"]):.1f}" r="{_radius(it):.1f}"/>'
        for it in bins
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {HEIGHT}" role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}\n</style>",
            text(LEFT, 22, title, "start"),
            text(LEFT + SIZE / 2, HEIGHT - 14, "score", "middle"),
            text(LEFT + SIZE + 15, y(1.0) + 4, "dashed: as it should be", "start"),
            text(LEFT + SIZE + 15, y(0.5), "area of a dot:", "start"),
            text(LEFT + SIZE + 15, y(0.5) + 18, "its share of the hits", "start"),
            *drawn,
            "</svg>\n",
        )
    )


def _radius(one: Bin) -> float:
    return max(2.5, LARGEST * math.sqrt(one["share"] / 0.5))


if __name__ == "__main__":
    results, image = map(Path, sys.argv[1:3])
    save_plot(image, json.loads(results.read_text("utf-8"))["reliability"])
