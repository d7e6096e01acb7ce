"""Thresholds of learning from traffic."""

from pydantic import Field

from skillbus.learning.thresholds import Thresholds


class TrafficSettings(Thresholds):
    """Thresholds of header and parameter rules and of path templates."""

    min_named: int = Field(default=3, ge=1)
    """Fewest failed calls without a name whose error names it."""
    min_absent: int = Field(default=3, ge=1)
    """Fewest failed calls without a name, if no error names it: every one must fail, with one status."""
    min_present: int = Field(default=10, ge=1)
    """Fewest calls that carry the name."""
    min_present_success: float = Field(default=0.5, ge=0.0, le=1.0)
    """Least share of successes among the calls that carry the name. Calls that were throttled or met an error of the
    server count nowhere."""
    max_chance: float = Field(default=0.01, gt=0.0, lt=1.0)
    """Greatest probability that all calls without a name fail by chance, over all names of an endpoint."""
    same_status: float = Field(default=0.8, ge=0.0, le=1.0)
    """Least share of the commonest status among the failed calls without a name, if no error names it."""
    min_messages: int = Field(default=3, ge=1)
    """Fewest calls that were refused with one message about a parameter's value."""
    slug_siblings: int = Field(default=3, ge=2)
    """Fewest segments under one parent that are values of a slug, if the paths below them end alike."""
    tenant_siblings: int = Field(default=2, ge=2)
    """The same, if two or more paths below them end alike."""
    leaf_slugs: int = Field(default=5, ge=2)
    """Fewest last segments under one parent that look like slugs: with a hyphen, a digit or letters outside ASCII."""
    leaf_names: int = Field(default=20, ge=2)
    """Fewest last segments under one parent that are values of a slug whatever they look like."""
    max_groups: int = Field(default=100_000, ge=1)
    """Most different combinations of endpoint, names, status and message that are kept. More are counted only."""
