"""The command line `loglake`: reads log directories with `logcore` alone, without a JVM.

Other packages add commands with the entry point group `loglake.commands`.
"""
