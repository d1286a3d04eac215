"""The command line `loglake`: looks into log directories with `logcore` alone, and starts no JVM.

Commands that need more than this package join through the entry point group `loglake.commands`.
"""
