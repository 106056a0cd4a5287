"""What every DuckDB of ours is told first: it loads no extension, and sees no variable of the program around
it. (Without another import: a process that holds released tables and nothing else starts in .2 s.)"""

CLOSED = {
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
