"""libacl_dvpp through acl.media, on this build's libraries."""
import ctypes
import sys

import pytest
from media_tools import LIBRARIES, ROOT, Media


@pytest.fixture(scope="session")
def acl():
    if not (LIBRARIES / "libacl_dvpp.so").exists():
        pytest.skip(f"{LIBRARIES} has no libacl_dvpp.so: build first")
    ctypes.CDLL(str(LIBRARIES / "libascendcl.so"), mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, str(ROOT / "third_party/softcann/python"))
    import acl

    initialized_already = 100002   # by the adapter, in a test before
    assert acl.init() in (0, initialized_already) and acl.rt.set_device(0) == 0
    return acl


@pytest.fixture
def media(acl):
    return Media(acl)
