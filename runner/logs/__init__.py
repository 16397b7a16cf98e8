"""Read figures and their line numbers from the logs of any training program. Parentheses name the modules.

    bytes -> blocks of whole lines (lines) -> lines that patterns match (reading: dialect, pattern, mlperf)
    -> values and their writers (origin) -> facts of the log (facts) -> one JSON object with a status (summary)

If a log does not state a fact, the fact is None. Facts are never guessed.
"""
