"""Laws that the audit's checker lacks, because it is for one server without keys: the order of groups, and unique keys over all shards."""

from collections import defaultdict

KINDS = {
    "group out of order": "jobs of a group that were handed out before an earlier job was done",
    "key held twice": "jobs that were created while another unfinished job, on any shard, had their unique key",
    "lost under a key": "acknowledged jobs under shared keys that have not completed",
}


def sequence(key):
    """The producer numbers its jobs."""
    return int(key.rpartition(".")[2])


def out_of_order(events, effects, groups):
    """groups: (id, key, group) of the jobs that have a group. A producer enqueues one call after the other, into groups of its own."""
    asked = {(e.client, e.number): e.time for e in events if e.phase == "invoke"}
    acknowledged = {item.key for e in events if e.op == "enqueue" and e.phase == "ok" for item in e.items}
    given = {}
    for event in events:
        if event.op == "claim" and event.phase == "ok":
            for item in event.items:
                given.setdefault(item.id, event.time)       # events are ordered by time
    done = {effect.id: asked[effect.client, effect.number] for effect in effects if (effect.client, effect.number) in asked}
    members = defaultdict(list)
    for job, key, group in groups:
        members[group].append((sequence(key), job, key in acknowledged))
    found = []
    for group, jobs in members.items():
        latest, before = 0, None
        for _, job, came_first in sorted(jobs):     # before all later jobs; if the answer is unknown, so is the time
            if given.get(job, latest) < latest:
                found.append(f"job {job} of {group} was given out {latest - given[job]:.3f} s before job {before} could be done")
            if came_first and done.get(job, 0) > latest:
                latest, before = done[job], job
    return found


def held_twice(holders):
    """holders: (queue, unique key, id, time of creation, time of the end or None), all on the same clock."""
    by_key = defaultdict(list)
    for queue, key, job, born, ended in holders:
        by_key[queue, key].append((born, ended, job))
    found = []
    for (queue, key), jobs in by_key.items():
        jobs.sort(key=lambda row: row[0])
        for (_, ended, job), (born, _, later) in zip(jobs, jobs[1:]):
            if ended is None or born < ended:
                found.append(f"{queue}/{key}: job {later} was made at {born}, and job {job} had it until {ended}")
    return found


def lost_under_keys(events, statuses):
    """statuses: of the jobs in the queue with shared keys."""
    answered = {(item.key, item.id) for e in events if e.op == "once" and e.phase == "ok" for item in e.items}
    return [f"{key}: job {job} is {statuses.get(job, 'gone')}" for key, job in answered if statuses.get(job) != "completed"]
