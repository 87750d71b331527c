"""The map of a cluster, which assigns queues and keys to shards, as the router reads it (router/sql/router/30_place.sql). Needs no
server."""

from __future__ import annotations

import hashlib
import random
from typing import Any, Dict, List, Mapping, Optional, Union

ANY = "any"
_ONLY_ROUTER = ("depends_on", "ref", "batch_id", "limits")


def bucket_of(queue: str, key: Optional[str] = None) -> int:
    """Returns the bucket, from 0 to 1023, of a key of a queue or, without a key, of the queue."""
    first, second = hashlib.sha256((queue if key is None else f"{queue}\n{key}").encode()).digest()[:2]
    return first * 4 + second // 64


class ShardMap:
    def __init__(self, version: int, shards: List[Dict[str, Any]], buckets: List[Dict[str, Any]], queues: List[Dict[str, Any]]) -> None:
        """The arguments are the version and the tables of the router. queues: those that are spread or whose shard was chosen."""
        self.version = version
        self.shards: Dict[int, Dict[str, Any]] = {shard["shard_id"]: shard for shard in shards}
        self.buckets: Dict[int, Dict[str, Any]] = {bucket["bucket"]: bucket for bucket in buckets}
        self.queues: Dict[str, Dict[str, Any]] = {queue["queue"]: queue for queue in queues}

    def shard_of(self, job: Mapping[str, Any]) -> Union[int, str, None]:
        """Returns the shard of a job, whose keys are those of jobq_enqueue_jobs: its number, ANY if the job can go to any shard, or
        None if only the router can decide, for example because the key is moving to another shard, or because the router rejects
        the job."""
        if any(job.get(name) is not None for name in _ONLY_ROUTER):
            return None
        queue = job.get("queue")
        queue = "default" if queue is None else queue
        route = self.queues.get(queue)
        if route is None or not route["spread"]:
            return _settled(self.buckets.get(bucket_of(queue)) if route is None else route)
        keys = [job[name] for name in ("group_key", "concurrency_key", "unique_key") if job.get(name) is not None]
        if not keys:
            return ANY
        chosen = keys[0] if route["spread_by"] is None else job.get(route["spread_by"])
        if chosen is None or route["spread_by"] is None and any(key != chosen for key in keys):
            return None
        return _settled(self.buckets.get(bucket_of(queue, chosen)))

    def any_shard(self, share: Optional[float] = None) -> Optional[int]:
        """Returns an active shard, chosen at random by weight, or None if there is none."""
        active = [shard for shard in self.shards.values() if shard["state"] == "active"]
        left = (random.random() if share is None else share) * sum(shard["weight"] for shard in active)
        for shard in active:
            left -= shard["weight"]
            if left < 0:
                return int(shard["shard_id"])
        return None


def _settled(place: Optional[Mapping[str, Any]]) -> Optional[int]:
    return int(place["shard_id"]) if place is not None and not place["was_on"] else None
