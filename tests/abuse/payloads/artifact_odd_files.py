"""What is no regular file in the output folder, what blocks whoever opens it, and what nobody may read."""

import os
import socket
from pathlib import Path

from tests.abuse.payloads.verdict import done

os.chdir("/work/out")
os.mkfifo("fifo")
socket.socket(socket.AF_UNIX).bind("socket")
Path("folder").mkdir()
os.mkfifo("folder/fifo")
Path("closed").mkdir(mode=0)
Path("unreadable").write_text("nobody's")
Path("unreadable").chmod(0)
Path("kept").write_text("a regular file")
done()
