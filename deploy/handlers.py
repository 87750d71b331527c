"""Handlers by kind of job, for `jobq worker handlers:handlers`. Replace them with your own."""


def welcome(job):
    print("welcome", job.payload["to"], flush=True)
    return {"greeted": job.payload["to"]}


handlers = {"welcome": welcome}
