"""acl, as a program uses it: from the tree, on this build's libraries."""
import ctypes

import pytest
from acl_tools import LIBRARIES, converted


@pytest.fixture(scope="session")
def acl():
    if not (LIBRARIES / "libge_executor.so").exists():
        pytest.skip(f"{LIBRARIES} has no libge_executor.so: build first")
    ctypes.CDLL(str(LIBRARIES / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)   # a process that has loaded CANN already
    import acl

    initialized_already = 100002   # by the adapter, in a test before
    assert acl.init() in (0, initialized_already) and acl.rt.set_device(0) == 0
    return acl


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    return converted(tmp_path_factory.mktemp("gears"), "n", input_shape="x:-1,3", dynamic_batch_size="1,4")


@pytest.fixture(scope="session")
def fixed_model(tmp_path_factory):
    return converted(tmp_path_factory.mktemp("fixed"), 4)[0]
