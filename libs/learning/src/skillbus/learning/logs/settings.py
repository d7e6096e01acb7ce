"""Thresholds of learning from logs."""

from pydantic import Field

from skillbus.learning.thresholds import Thresholds


class LogSettings(Thresholds):
    """Thresholds of templates, incidents and configuration facts."""

    max_patterns: int = Field(default=10_000, ge=10)
    """Most masked messages that are kept apart before they are generalized. More bring the rarest to be forgotten."""
    min_warnings: int = Field(default=5, ge=1)
    """Fewest records of a template of warnings. One error is enough."""
    min_unlevelled: int = Field(default=3, ge=1)
    """Fewest records of a template whose records have no level: words of failure alone are a weak sign."""
    min_share: float = Field(default=0.02, ge=0.0, le=1.0)
    """Least share of a template of warnings among the records of the commonest severe template."""
    window_seconds: int = Field(default=30, ge=1)
    """Length of the time windows in which records occur together."""
    window_records: int = Field(default=20, ge=1)
    """The same in records, for logs without times."""
    min_lift: float = Field(default=3.0, ge=1.0)
    """Templates occur together if they share more windows than chance would have by this factor."""
    min_together: float = Field(default=0.5, ge=0.0, le=1.0)
    """Least share of the windows of each template that the other template has too."""
    min_fact_records: int = Field(default=3, ge=1)
    """Fewest records of one component that name the same value of a setting."""
    max_incidents: int = Field(default=8, ge=0)
    """Most incidents of a file, those with the highest scores."""
    max_facts: int = Field(default=10, ge=0)
    """Most configuration facts of a file, those with the most records."""
