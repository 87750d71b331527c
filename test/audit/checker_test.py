"""Tests the checker with handwritten histories: one for each kind of violation and one without any."""

import checker
from checker import Effect, Final
from history import Event, Item
from support import Results

TIMEOUT = 1.0


class Story:
    """A history and a final state; initially one job that was enqueued, claimed, and completed correctly."""

    def __init__(self):
        self.time = 0.0
        self.number = 0
        self.events = []
        self.final = Final(jobs=[(7, "k", "completed")], effects=[], attempts=[])
        self.tell("enqueue", "ok", Item("k", 7))
        self.tell("claim", "ok", Item("k", 7, 100, 1))
        self.complete(100)

    def tell(self, op, phase, *items, client="w0", after=0.01, detail=""):
        self.number += 1
        self.time += after
        self.events.append(Event(self.time, client, self.number, op, "invoke", list(items), ""))
        self.time += 0.01
        self.events.append(Event(self.time, client, self.number, op, phase, list(items), detail))
        return self.number

    def complete(self, lease, phase="ok", effect=True):
        number = self.tell("complete", phase, Item("k", 7, lease))
        if effect:
            self.final.effects.append(Effect(7, lease, "k", "w0", number))

    def found(self):
        return set(checker.check(self.events, self.final, TIMEOUT).found())


def proper(story):
    pass


def rescued(story):
    """The second attempt completes after the first was lost, which is correct."""
    story.events = [e for e in story.events if e.op == "enqueue"]
    story.final.effects.clear()
    story.tell("claim", "ok", Item("k", 7, 50, 1))
    story.tell("claim", "ok", Item("k", 7, 60, 2), after=1.2)
    story.final.attempts.append((7, 50, "lost"))
    story.complete(50, "fail", effect=False)
    story.complete(60)


def lost(story):
    story.tell("enqueue", "ok", Item("gone", 8))


def unfinished(story):
    story.tell("enqueue", "ok", Item("waiting", 8))
    story.final.jobs.append((8, "waiting", "pending"))


def failed(story):
    story.tell("enqueue", "ok", Item("bad", 8))
    story.final.jobs.append((8, "bad", "failed"))


def phantom(story):
    story.tell("enqueue", "fail", Item("never"))
    story.final.jobs.append((8, "never", "pending"))


def unexpected(story):
    story.final.jobs.append((8, "from nowhere", "pending"))


def twice_there(story):
    story.final.jobs.append((8, "k", "pending"))


def torn(story):
    story.tell("enqueue", "unknown", Item("a"), Item("b"))
    story.final.jobs.append((8, "a", "completed"))


def doubled(story):
    story.complete(100)


def no_effect(story):
    story.final.effects.clear()


def same_lease_given(story):
    story.tell("claim", "ok", Item("k", 7, 100, 1), client="w1")


def given_while_held(story):
    story.tell("claim", "ok", Item("k", 7, 200, 2), client="w1")


def given_while_heartbeats(story, phase="ok"):
    rescued(story)
    claim = next(e for e in story.events if e.op == "claim")
    story.tell("heartbeat", phase, Item("k", 7, 50))
    beat = story.events[-2:]
    story.events[-2:] = [e._replace(time=claim.time + 0.9) for e in beat]


def unknown_heartbeat(story):
    """The heartbeat may never have reached the server, and then the rescue was correct."""
    given_while_heartbeats(story, "unknown")


def given_after_failure(story, phase=None):
    """The first attempt is failed. If there is no answer, the client was killed before it could record it."""
    story.events = [e for e in story.events if e.op == "enqueue"]
    story.final.effects.clear()
    story.tell("claim", "ok", Item("k", 7, 50, 1))
    story.tell("fail", phase or "ok", Item("k", 7, 50))
    if phase is None:
        story.events.pop()
    story.tell("claim", "ok", Item("k", 7, 60, 2), client="w1")
    story.final.attempts.append((7, 50, "failed"))
    story.complete(60)


def given_after_refusal(story):
    given_after_failure(story, "fail")


def stale(story):
    story.events = [e for e in story.events if e.op == "enqueue"]
    story.final.effects.clear()
    story.tell("claim", "ok", Item("k", 7, 50, 1))
    story.tell("claim", "ok", Item("k", 7, 60, 2), after=1.2)
    story.final.attempts.append((7, 60, "lost"))
    story.complete(50)


def stale_by_rescue(story):
    story.final.attempts.append((7, 100, "lost"))


def accepted_for_nothing(story):
    story.complete(100, effect=False)


def refused_but_done(story):
    story.final.effects.clear()
    story.events = story.events[:-2]
    story.complete(100, "fail")


def lease_lost_without_trace(story):
    rescued(story)
    story.final.attempts.clear()


def lease_from_nowhere(story):
    story.final.effects[0] = story.final.effects[0]._replace(lease=666)


def error(story):
    story.tell("claim", "error", detail="XX000")


CASES = {
    proper: set(), rescued: set(), unknown_heartbeat: set(), given_after_failure: set(),
    given_after_refusal: {"lease issued twice"},
    lost: {"lost"}, unfinished: {"lost"}, failed: {"failed"}, phantom: {"phantom"},
    unexpected: {"unexpected"}, twice_there: {"unexpected"}, torn: {"torn"},
    doubled: {"doubled effect", "lease accepted twice"}, no_effect: {"missing effect"},
    same_lease_given: {"lease issued twice"}, given_while_held: {"lease issued twice"},
    given_while_heartbeats: {"lease issued twice"},
    stale: {"stale lease accepted"}, stale_by_rescue: {"stale lease accepted"},
    accepted_for_nothing: {"lease accepted twice"}, refused_but_done: {"false answer"},
    lease_lost_without_trace: {"unexplained lease"}, lease_from_nowhere: {"unexplained lease"},
    error: {"error"},
}


def try_stories(results, cases, found_in):
    """Each story must show the violations that it is about. A violation may show in more than one way; a story without one must show none."""
    for write, wanted in cases.items():
        found = found_in(write)
        results.check(wanted <= found if wanted else not found, write.__name__.replace("_", " "),
                      f"found {found}, wanted {wanted}")


def found_in(write):
    story = Story()
    write(story)
    return story.found()


if __name__ == "__main__":
    outcome = Results("checker")
    try_stories(outcome, CASES, found_in)
    outcome.finish()
