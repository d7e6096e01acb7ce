"""Modules of the skill with the names of those that the agent needs: only the skill itself may get them."""

from tests.abuse.payloads.verdict import done

done()
