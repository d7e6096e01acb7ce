"""The output folder itself becomes a link to somewhere else."""

from pathlib import Path

from tests.abuse.payloads.verdict import done

Path("/work/out").rmdir()
Path("/work/out").symlink_to(Path(__file__).parent)
done()
