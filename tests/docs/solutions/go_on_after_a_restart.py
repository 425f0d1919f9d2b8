"""Count views into Parquet files, and go on with what is new in a second run."""

import muntin as mt


def run():
    visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
    views = mt.windowed(visits, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
    query = views.start(checkpoint="checkpoint", results=mt.to_parquet("out"), available_now=True)
    query.await_end()


run()
add_files()
run()
