"""Lines for CANN's log (ASCEND_GLOBAL_LOG_LEVEL)."""
import acl


def debug(message):
    acl.app_log(0, message)


def info(message):
    acl.app_log(1, message)


def warn(message):
    acl.app_log(2, message)


def error(message):
    acl.app_log(3, message)


def fatal(message):
    acl.app_log(3, message)
