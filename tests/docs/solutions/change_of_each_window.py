"""Sum all rooms in ten minutes, and compare with the window before, in pandas."""

import muntin as mt

windows = mt.windowed(readings, time="at").tumbling("10 minutes").agg(total=mt.sum("degrees"))
answer = windows.results.sort_values("window_start")
answer["change"] = answer["total"].diff()
