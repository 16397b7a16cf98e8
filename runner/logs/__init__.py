"""Other people's stdout: the log of a training becomes figures, each with the line that it was read from.

    bytes -> blocks of whole lines (lines) -> the lines with a pattern's fixed text (reading: dialect, pattern, mlperf)
    -> values, with who printed them (origin) -> the facts of the log (facts) -> one JSON object with a status (summary)

What a log does not say is None, never a guess.
"""
