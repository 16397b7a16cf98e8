"""Read figures, each with its line, from the logs of any training program.

    bytes -> blocks of whole lines (lines) -> lines that patterns match (reading: dialect, pattern, mlperf)
    -> values and their writers (origin) -> facts of the log (facts) -> one JSON object with a status (summary)

Facts that a log does not state are None, never guesses.
"""
