"""Runs the fusions that are switched on."""

PASSES = ()


def run(program, switches, log=None):
    """`switches` by name, "ALL" for those that are not named; all are on by default."""
    for name, function in PASSES:
        if switches.get(name, switches.get("ALL", True)):
            count = function(program)
            if count and log is not None:
                log.info(f"{name}: {count} fused")
