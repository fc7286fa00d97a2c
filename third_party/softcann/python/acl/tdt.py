"""acl.tdt: queues and channels of data between the host and models, which softcann has not: give data to models by datasets."""
from ._binding import Table

_TABLE = Table("acl.tdt", ("libascendcl.so", "libacl_tdt_channel.so", "libacl_tdt_queue.so"), "")
__getattr__, __dir__ = _TABLE.attribute, _TABLE.names
