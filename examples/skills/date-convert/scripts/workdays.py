"""Chinese public holidays and the weekend days worked instead, year by year as they were announced."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from skillio import SkillError

TABLE = Path(__file__).parents[1] / "references" / "cn_holidays.json"


@dataclass(frozen=True, slots=True)
class Calendar:
    """`holidays` and `workdays` map a day to the festival it belongs to; outside `years` nothing is announced."""

    years: frozenset[int]
    holidays: Mapping[date, str]
    workdays: Mapping[date, str]

    def is_workday(self, day: date) -> bool:
        if day.year not in self.years:
            known = f"{min(self.years)} to {max(self.years)}"
            raise SkillError(f"no holidays are known for {day.year}; workdays can be counted from {known}")
        return day in self.workdays or (day.weekday() < 5 and day not in self.holidays)

    def count(self, start: date, end: date) -> int:
        """Workdays after `start` up to and including `end`; negative when `end` comes first."""
        if end < start:
            return -self.count(end, start)
        return sum(self.is_workday(start + timedelta(days=step)) for step in range(1, (end - start).days + 1))

    def shift(self, start: date, workdays: int) -> date:
        step = timedelta(days=1 if workdays > 0 else -1)
        day, left = start, abs(workdays)
        while left:
            day += step
            left -= self.is_workday(day)
        return day


def load_calendar() -> Calendar:
    years = json.loads(TABLE.read_text(encoding="utf-8"))["years"]
    return Calendar(
        years=frozenset(map(int, years)),
        holidays={date.fromisoformat(day): name for year in years.values() for day, name in year["holidays"].items()},
        workdays={date.fromisoformat(day): name for year in years.values() for day, name in year["workdays"].items()},
    )
