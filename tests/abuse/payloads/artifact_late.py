"""A process that goes on when the script has ended, and writes while artifacts are collected."""

import os
import time
from pathlib import Path

from tests.abuse.payloads.verdict import done

if os.fork() == 0:
    os.setsid()
    for number in range(40):
        time.sleep(0.05)
        Path("/work/out/late").write_text(str(number))
    os._exit(0)
done()
