"""Find the greatest value of each sensor in each minute, of a pandas frame and of an Arrow table."""

import muntin as mt


def greatest(frame):
    minutes = mt.windowed(frame, key="sensor", time="at").tumbling("1 minute")
    return minutes.agg(greatest=mt.max("value")).results


columns = ["sensor", "window_start", "greatest"]
of_pandas = greatest(readings)[columns]
of_arrow = greatest(table).select(columns)
