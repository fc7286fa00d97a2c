"""Mixed precision: on softcann with one device, short and on one thread."""
import os
import subprocess
import sys

import pytest

os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "2")


@pytest.fixture
def python():
    """Runs code in a process of its own with more environment variables; its output. Fails the test if it fails."""
    def run(code, **environment):
        result = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, text=True, timeout=300,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert result.returncode == 0, result.stdout
        return result.stdout
    return run
