"""acl, as a program uses it: from the tree, on this build's libraries."""
import ctypes

import numpy as np
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


@pytest.fixture
def rt(acl):
    assert acl.rt.set_device(0) == 0
    return ctypes.CDLL(str(LIBRARIES / "libacl_rt.so"))   # CANN's newer name for it; it leads on to libascendcl


def made_stream(acl, rt):
    made, code = acl.rt.create_stream()
    assert code == 0
    yield ctypes.c_void_p(made)
    assert acl.rt.destroy_stream(made) == 0


stream = pytest.fixture(made_stream, name="stream")
other = pytest.fixture(made_stream, name="other")   # a second one


@pytest.fixture
def copied(acl):
    """The array in device memory: its address, and a function that gives what is there."""
    def copy(array):
        pointer, code = acl.rt.malloc(array.nbytes, 0)
        assert code == 0 and acl.rt.memcpy(pointer, array.nbytes, array.ctypes.data, array.nbytes, 1) == 0

        def back():
            found = np.empty_like(array)
            assert acl.rt.memcpy(found.ctypes.data, array.nbytes, pointer, array.nbytes, 2) == 0
            return found
        return ctypes.c_void_p(pointer), back
    return copy
