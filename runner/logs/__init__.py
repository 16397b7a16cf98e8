"""Other people's stdout: the log of a training becomes figures, each with the line that it was read from.

    a file, a folder or stdin (sources) -> blocks of whole lines (lines) -> the lines with a pattern's fixed text
    -> values, with who printed them (reading: dialect, mlperf, origin, metrics) -> the facts of the log (facts)
    -> one JSON object with a status (summary)

What a log does not say is None, never a guess.
"""
