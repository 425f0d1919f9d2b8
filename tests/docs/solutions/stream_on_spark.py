"""Count the views of each page in each minute as a stream on Spark, with early results."""

import muntin as mt

spark = mt.session()
visits = spark.readStream.schema("page string, at timestamp").parquet("in")
views = (
    mt.windowed(visits, key="page", time="at")
    .tumbling("1 minute")
    .early(each=True)
    .agg(n=mt.count())
)
results = mt.to_memory()
query = views.start(checkpoint="checkpoint", results=results, available_now=True)
query.await_end()
answer = results.frame().select("page", "window_start", "n")
