"""Mixed precision: on softcann with one device, short and on one thread."""
import os

import pytest

os.environ.setdefault("SOFTCANN_DEVICE_COUNT", "2")


@pytest.fixture
def python(python):
    """Runs code in a process of its own with more environment variables; its output. Fails the test if it fails."""
    def run(code, **environment):
        result = python(code, **environment)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout
    return run
