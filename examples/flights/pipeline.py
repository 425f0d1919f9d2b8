"""The flights' pipeline, for ``muntin run``; the code itself is in the package.

muntin run examples/flights/pipeline.py --until-quiet --set data=artifacts/flights/replay --set out=artifacts/again
"""  # noqa: E501

from muntin.apps.flights.pipeline import pipeline

__all__ = ["pipeline"]
