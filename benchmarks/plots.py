"""Plots of results as SVG that can be read on light and dark pages.

python benchmarks/plots.py latency benchmarks/results/tool_search_beside_lancedb.json docs/images/search-latency.svg
python benchmarks/plots.py reliability benchmarks/results/knowledge_ranking.json docs/images/knowledge-reliability.svg
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

ARMS: Final = {
    "skillbus": ("skillbus, over the bus", "a"),
    "lancedb_rrf": ("LanceDB, hybrid with RRF", "b"),
    "lancedb_plain": ("LanceDB, two sides not joined", "c"),
}
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 60, 500, 40, 350
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

Size = Mapping[str, object]
Bin = Mapping[str, float]


def save_latency_plot(path: Path, sizes: Sequence[Size]) -> None:
    """Draw latency over the number of tools: both axes logarithmic, medians as lines, 95th percentiles dashed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_draw_latency(sizes), "utf-8")


def _draw_latency(sizes: Sequence[Size]) -> str:
    tools = [_tools(size) for size in sizes]
    values = [_ms(size, arm, at) for size in sizes for arm in ARMS for at in ("p50", "p95")]
    low, high = 2.0 ** math.floor(math.log2(min(values))), 2.0 ** math.ceil(math.log2(max(values)))

    def x(count: float) -> float:
        span = math.log(tools[-1] / tools[0]) or 1.0
        return LEFT + (RIGHT - LEFT) * math.log(count / tools[0]) / span

    def y(ms: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * math.log(ms / low) / math.log(high / low)

    marks = [low * 2.0**step for step in range(round(math.log2(high / low)) + 1)]
    drawn = [text(LEFT - 8, y(ms) + 4, f"{ms:g}", "end") for ms in marks]
    drawn += [f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y(ms):.1f}" y2="{y(ms):.1f}"/>' for ms in marks]
    drawn += [text(x(count), BOTTOM + 22, f"{count:,}", "middle") for count in tools]
    for number, (arm, (name, style)) in enumerate(ARMS.items()):
        for at in ("p50", "p95"):
            points = " ".join(f"{x(_tools(size)):.1f},{y(_ms(size, arm, at)):.1f}" for size in sizes)
            drawn.append(f'<polyline class="{style} {at}" points="{points}"/>')
        drawn += [
            f'<circle class="dot {style}" cx="{x(_tools(size)):.1f}" cy="{y(_ms(size, arm, "p50")):.1f}" r="3.5"/>'
            for size in sizes
        ]
        line = TOP + 20 + 26 * number
        drawn.append(f'<polyline class="{style}" points="{RIGHT + 15},{line} {RIGHT + 40},{line}"/>')
        drawn.append(text(RIGHT + 46, line + 4, name, "start"))
    return _page(drawn)


def _page(drawn: Sequence[str]) -> str:
    title = "Hybrid search with a filter: milliseconds over the number of tools"
    words = [
        text(LEFT, 22, title, "start"),
        text((LEFT + RIGHT) / 2, HEIGHT - 8, "tools", "middle"),
        text(RIGHT + 15, TOP + 110, "line: median", "start"),
        text(RIGHT + 15, TOP + 130, "dashed: 95th percentile", "start"),
    ]
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}\n</style>",
            *words,
            *drawn,
            "</svg>\n",
        )
    )


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Return an SVG text element."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _tools(size: Size) -> int:
    count = size["tools"]
    assert isinstance(count, int)
    return count


def _ms(size: Size, arm: str, at: str) -> float:
    arms = size["ms"]
    assert isinstance(arms, dict)
    return float(arms[arm][at])


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
    kind, results, image = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    result = json.loads(results.read_text("utf-8"))
    if kind == "latency":
        save_latency_plot(image, result["sizes"])
    else:
        save_reliability_plot(image, result["reliability"])


if __name__ == "__main__":
    main()
