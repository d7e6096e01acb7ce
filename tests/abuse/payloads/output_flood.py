"""More output than is kept, to one stream or to both in turns."""

import os
import sys

from tests.abuse.payloads.verdict import done

STREAMS, BLOCKS = sys.argv[1], int(sys.argv[2])
for _ in range(BLOCKS):
    for stream in STREAMS:
        os.write(int(stream), b"x" * 65535 + b"\n")
done()
