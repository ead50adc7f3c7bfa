"""Something that is started as a worker and is none."""

import sys

sys.stderr.write("\x02no level at all\n\x0299 root a name of others\n")
sys.stderr.flush()
sys.stdin.buffer.read(4)
sys.stdout.buffer.write(b"what native code may print")
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
