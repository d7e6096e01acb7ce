"""Plot of scores and how often they are right, as SVG that can be read on light and dark pages.

python benchmarks/reliability_plot.py benchmarks/results/knowledge_ranking.json docs/images/knowledge-reliability.svg
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

HEIGHT, LEFT, TOP = 400, 60, 40
STYLE: Final = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .grid { stroke: #24292f; stroke-opacity: .15 }
  polyline { fill: none; stroke-width: 2.5 } .p95 { stroke-width: 1.5; stroke-dasharray: 5 4 }
  .a { stroke: #0969da } .b { stroke: #bc4c00 } .c { stroke: #6e7781 }
  .dot.a { fill: #0969da } .dot.b { fill: #bc4c00 } .dot.c { fill: #6e7781 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .grid { stroke: #e6edf3 }
    .a { stroke: #58a6ff } .b { stroke: #ffa657 } .c { stroke: #9ea7b3 }
    .dot.a { fill: #58a6ff } .dot.b { fill: #ffa657 } .dot.c { fill: #9ea7b3 }
  }"""

SIZE: Final = 300
"""Side of the reliability plot, in pixels."""
LARGEST: Final = 16.0
"""Radius of the dot of a bin with half of the hits."""

Bin = Mapping[str, float]


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Return an SVG text element."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def save_reliability_plot(path: Path, bins: Sequence[Bin]) -> None:
    """Draw how often hits of a score answer the query: one dot per bin, its area by its share of the hits."""
    path.write_text(_draw_reliability(bins), "utf-8")


def _draw_reliability(bins: Sequence[Bin]) -> str:
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
            text(LEFT + SIZE + 15, y(1.0) + 4, "dashed: ideal", "start"),
            text(LEFT + SIZE + 15, y(0.5), "area of a dot:", "start"),
            text(LEFT + SIZE + 15, y(0.5) + 18, "its share of the hits", "start"),
            *drawn,
            "</svg>\n",
        )
    )


def _radius(one: Bin) -> float:
    return max(2.5, LARGEST * math.sqrt(one["share"] / 0.5))


def main() -> None:
    results, image = Path(sys.argv[1]), Path(sys.argv[2])
    save_reliability_plot(image, json.loads(results.read_text("utf-8"))["reliability"])


if __name__ == "__main__":
    main()
