"""How much is read of a server."""

from typing import Final

MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Of one message. A listing of 10,000 tools has some 5 MB, and so has the longest description that was heard of."""
LISTING_BYTES: Final = 64 * 1024 * 1024
"""Of all pages of one listing."""
TOOLS: Final = 20_000
"""Of one listing."""
PAGES: Final = 2_000
LAST_WORDS: Final = 5
"""Lines of what a process wrote to standard error that are told."""
LAST_WORDS_BYTES: Final = 8 * 1024
