"""Who listens to events and waits: one object, or None. The sanitizer sets it; streams, events and devices tell it.

Its methods: event_recorded(event, stream), stream_waits(stream, event), host_waits_event(event), host_waits_stream(stream),
host_waits_device(index).
"""

from typing import Any

listener: Any = None
