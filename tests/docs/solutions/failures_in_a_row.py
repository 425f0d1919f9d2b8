"""Report each buyer at the third payment in a row that failed."""

import muntin as mt

app = mt.App("payments")
failures = app.Table("failures", default=int)
answer = []


@app.agent(app.topic("payments"))
async def watch(stream):
    async for payment in stream:
        buyer = payment["buyer"]
        failures[buyer] = failures[buyer] + 1 if payment["state"] == "failed" else 0
        if failures[buyer] == 3:
            answer.append({"buyer": buyer, "at": payment["at"]})


with app.open() as running:
    running.feed({"payments": mt.source(payments, key="buyer", time="at")})
