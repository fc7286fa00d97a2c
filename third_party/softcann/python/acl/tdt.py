"""acl.tdt: channels of training data. Its functions stand in no table yet: none is served."""


def __getattr__(name):
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}: acltdt* is not served from Python")
