"""Budget of the bytes that a run may move."""

from skillbus.sandbox.adapters.egress.tunnel import EgressBudget


def test_a_chunk_that_does_not_fit_empties_the_budget_so_that_no_smaller_one_fits_later() -> None:
    budget = EgressBudget(10)
    assert budget.spend(4)
    assert budget.left == 6
    assert not budget.spend(7)
    assert budget.left == 0
    assert not budget.spend(1)


def test_exactly_as_much_as_is_left_may_be_spent() -> None:
    budget = EgressBudget(10)
    assert budget.spend(10)
    assert budget.left == 0
