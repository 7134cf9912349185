"""What the libraries of buckets say of themselves."""

import logging
import subprocess
import sys


def test_tracebacks_of_gcsfs_do_not_go_to_the_terminal():
    code = (
        "import logging, multiview.artifacts.servers\n"
        "try: 1 / 0\n"
        "except Exception: logging.getLogger('gcsfs.retry').exception('out of retries')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("gcsfs").handlers)
