"""Count flights that are more than 15 minutes late, by carrier and hour, in a table."""

import muntin as mt

app = mt.App("airport")
late = app.Table("late", default=int).tumbling("1 hour", expires="7 days")


@app.agent(app.topic("flights"))
async def watch(stream):
    async for flight in stream:
        if flight["delay"] > 15:
            late[flight["carrier"]] += 1


with app.open() as airport:
    airport.feed({"flights": mt.source(flights, key="carrier", time="at")})
    nine = late["AA"].current("2026-01-01T09:30:00Z")
    ten = late["AA"].current("2026-01-01T10:30:00Z")
