"""A statement of Nexmark in Flink SQL, from Kafka into Parquet files.

Started by ``benches.nexmark``.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from benches.peers.flink_topics import environment

# Its SQL reserves this name, which the others write without quotes.
_TIME = re.compile(r"(?<!`)\btime\b(?!`)")
# Its windows need a time of its source, so it takes the original query, whose rows change.
BEST_BIDS = """
SELECT id, bidder, price FROM (
    SELECT A.id, B.bidder, B.price, ROW_NUMBER() OVER (
        PARTITION BY A.id ORDER BY B.price DESC, B.time ASC
    ) AS rownum
    FROM auctions A, bids B
    WHERE A.id = B.auction AND B.time BETWEEN A.time AND A.expires
)
WHERE rownum <= 1
"""


def main(statement: str, peer: str, declared: str, name: str) -> None:
    """Run the statement to the end of its topics."""
    folder = Path(name)
    tables = environment(folder, "rocksdb" if peer == "flink-rocksdb" else "hashmap")
    for table in json.loads(declared):
        tables.execute_sql(table)
    changes = "auctions A, bids B" in statement
    query = _TIME.sub("`time`", BEST_BIDS if changes else statement)
    location = (folder / "results").as_uri()
    files = f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{location}'"
    # Files take no changes.
    sink = "'connector' = 'blackhole'" if changes else files
    tables.execute_sql(f"CREATE TABLE results WITH ({sink}) AS {query}").wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
