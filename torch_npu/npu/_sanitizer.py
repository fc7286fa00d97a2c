"""The sanitizer's published names. The check itself is the adapter's option ``check_nan_inf`` and blocking launches."""


class SanitizerMode:
    """What is looked for."""

    STREAM = 0
    KERNEL = 1


class NPUSanitizer:
    """Not there yet: :meth:`enable` raises NotImplementedError."""

    enabled = False

    def enable(self, mode: int = SanitizerMode.STREAM) -> None:
        """NotImplementedError, with what finds such faults instead."""
        raise NotImplementedError(
            "races between streams are not found by themselves: ASCEND_LAUNCH_BLOCKING=1 tells whether order matters, "
            "TORCH_NPU_CHECK_NAN_INF=1 which operator goes wrong")


npu_sanitizer = NPUSanitizer()


def enable_npu_sanitizer() -> None:
    """As :meth:`NPUSanitizer.enable`."""
    npu_sanitizer.enable()
