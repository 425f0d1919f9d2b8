"""Sum degrees since the full hour, every ten minutes."""

import muntin as mt

hours = mt.windowed(readings, time="at").cumulating("1 hour", "10 minutes")
answer = hours.agg(total=mt.sum("degrees")).results
