"""One process, one allocation that is used."""

import sys

from tests.abuse.payloads.verdict import attempt, done

attempt("took it all", bytearray, int(sys.argv[1]) << 20)
done()
