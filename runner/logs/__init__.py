"""Other people's stdout: any log of a training becomes facts, each with the line that it was read from.

    a file, or stdin -> blocks of lines (lines) -> lines that may say something (scan) -> fields (dialect, mlperf)
    -> facts of the log (facts), with whoever printed them (origin) -> one JSON object (reading)

What a log does not say is None, never a guess.
"""
