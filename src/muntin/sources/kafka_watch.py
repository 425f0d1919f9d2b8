"""Checks that topics still exist, and are still the same, while a reader waits."""

from __future__ import annotations

import json
from collections.abc import Mapping

from muntin.model.errors import SourceError
from muntin.model.patience import AwayError
from muntin.sources.kafka_broker import Broker, TopicIds, Topics

# How often a reader without messages queries the brokers, in seconds.
_SILENCE = 3.0
# A worker's admin clients, by their settings.
_BROKERS: dict[str, Broker] = {}


class TopicWatch:
    """Checks, in a worker, that topics are those that a batch was planned for.

    Args:
        ids: The ids of the batch's topics, as far as the brokers gave them.
        patience: How long brokers may be away, seconds.
    """

    def __init__(self, client: Mapping[str, str], ids: TopicIds, patience: float) -> None:
        self.patience = patience
        self.ids = ids
        self._has_read_by_id = False
        broker_key = json.dumps([dict(client), patience], sort_keys=True)
        if broker_key not in _BROKERS:
            _BROKERS[broker_key] = Broker(Topics((), "earliest", None, client, patience=patience))
        self._broker = _BROKERS[broker_key]
        self._last_query = 0.0

    def note_messages(self) -> None:
        """Forget an earlier silence."""
        self._last_query = 0.0
        self._broker.waiting.note_answer()

    def note_silence(self, seconds: float) -> None:
        """Query the brokers about the topics, every few seconds of silence."""
        if seconds < self._last_query + _SILENCE:
            return
        self._last_query = seconds
        try:
            described = self._broker.describe_now(self.ids)
        except AwayError as error:
            self._broker.waiting.note_failure(error)
            return
        self._broker.waiting.note_answer()
        for topic in self.ids:
            if topic not in described.partitions:
                raise SourceError(
                    f"topic {topic!r} was deleted while a batch read it. The batch is discarded"
                )
        self._compare_ids(described.ids)

    def note_reading(self, *, by_id: bool) -> None:
        """Note whether the messages were fetched by the topics' ids."""
        self._has_read_by_id = by_id

    def refuse_other_topics(self) -> None:
        """Raise if a topic was created again: the messages read may be those of the new one."""
        if self.ids and not self._has_read_by_id:
            self._compare_ids(self._broker.ids(self.ids))

    def _compare_ids(self, now: TopicIds) -> None:
        for topic, topic_id in self.ids.items():
            if now.get(topic, topic_id) != topic_id:
                raise SourceError(
                    f"topic {topic!r} was deleted and created again while a batch read it (id "
                    f"{topic_id}, now {now[topic]}). The batch is discarded"
                )
