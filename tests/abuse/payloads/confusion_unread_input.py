"""Megabytes of standard input that nobody reads."""

import sys
import time

from tests.abuse.payloads.verdict import done

if sys.argv[1:] == ["wait"]:
    time.sleep(5)
done()
