"""Other people's stdout: any log of a training becomes facts, each with the line that it was read from.

    a file, or stdin (sources) -> blocks of lines (lines) -> lines that may say something (scan, shapes)
    -> records of fields, with whoever printed them (reading: dialect, mlperf, general, origin)
    -> facts of the log (facts, endings) -> one JSON object (status, summary)

What a log does not say is None, never a guess.
"""
