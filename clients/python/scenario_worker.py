#!/usr/bin/env python3
"""The worker for the scenarios: see clients/scenarios/README.md. With the argument "async", it is an AsyncWorker."""

import asyncio
import ctypes
import logging
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))

import psycopg  # noqa: E402

import jobq  # noqa: E402

EVENT = "INSERT INTO scenario.events (job_id, attempt, event) VALUES (%s, %s, %s)"
OPEN = "SELECT count(*) FROM scenario.gates WHERE name = %s"
EFFECT = "INSERT INTO scenario.effects (job_id, attempt, name) VALUES (%s, %s, %s)"


class Eye:
    """Reads the database on a separate connection, which it opens again when it breaks."""

    def __init__(self):
        self.connection = None

    def ask(self, statement, parameters):
        while True:
            try:
                if self.connection is None:
                    self.connection = psycopg.connect(autocommit=True, prepare_threshold=None, connect_timeout=5)
                cursor = self.connection.execute(statement, parameters)
                return cursor.fetchone()[0] if cursor.description else None
            except psycopg.Error:
                if self.connection is not None:
                    self.connection.close()
                self.connection = None
                time.sleep(0.2)

    def tell(self, job, event):
        self.ask(EVENT, (job.id, job.attempt, event))

    def is_open(self, gate):
        return gate is None or self.ask(OPEN, (gate,)) > 0


def raise_if_early(job):
    if job.attempt <= job.payload.get("times", 0):
        raise ValueError(job.payload["message"])
    return {"attempt": job.attempt}


def snooze_once(job):
    if job.progress is None:
        job.set_progress({"snoozed": True})
        raise jobq.Snooze(job.payload["delay"])
    return {"snoozed": True}


def garbage_in(job, where):
    """Returns whether the job has an unreadable value in this column."""
    if job.payload["in"] == "error":
        raise ValueError("bad \udcff\0 bytes")
    if job.payload["in"] == "progress":
        job.set_progress("\0")
    return job.payload["in"] == where


# ---- plain functions

def echo(job):
    return job.payload


def reject(job):
    retry_in = job.payload.get("retry_in")
    raise jobq.Fail(job.payload["message"], retry_in=retry_in, retry=retry_in is not None)


def wait(job):
    eye = Eye()
    eye.tell(job, "started")
    gate = job.payload.get("gate")
    try:
        while not eye.is_open(gate):
            job.pause(0.1)
    except jobq.Stop as stop:
        eye.tell(job, stop.reason)
        raise
    return {"gate": gate}


def deaf(job):
    eye = Eye()
    eye.tell(job, "started")
    while not eye.is_open(job.payload.get("gate")):
        time.sleep(0.1)
    return {"gate": job.payload.get("gate")}


def sleep(job):
    Eye().tell(job, "started")
    time.sleep(job.payload["seconds"])
    return {}


def block(job):
    """Holds the GIL, as a slow regular expression may."""
    Eye().tell(job, "started")
    ctypes.PyDLL(None).sleep(job.payload["seconds"])
    return {}


def progress(job):
    eye = Eye()
    eye.tell(job, "started")
    for step in range(1, job.payload["steps"] + 1):
        job.set_progress({"step": step})
    while not eye.is_open(job.payload.get("gate")):
        job.pause(0.1)
    return {"steps": job.payload["steps"]}


def transfer(job):
    deaf(job)
    with job.completing({"moved": True}) as connection:
        connection.execute(EFFECT, (job.id, job.attempt, "transfer"))
        if "error" in job.payload and job.attempt == 1:
            raise ValueError(job.payload["error"])


def steps(job):
    eye = Eye()
    eye.tell(job, "started")
    results = []
    for name in job.payload["names"]:
        while name == job.payload.get("before") and not eye.is_open(job.payload.get("gate")):
            job.pause(0.1)

        def write(connection, name=name):
            connection.execute(EFFECT, (job.id, job.attempt, name))
            return {"name": name}

        results.append(job.step(name, write))
    return results


def garbage(job):
    return "\0" if garbage_in(job, "result") else wait(job)


def poison(job):
    Eye().tell(job, "started")
    os.kill(os.getpid(), signal.SIGKILL)


HANDLERS = {"echo": echo, "fail": raise_if_early, "reject": reject, "snooze": snooze_once, "wait": wait, "deaf": deaf, "sleep": sleep, "block": block,
            "progress": progress, "transfer": transfer, "steps": steps, "garbage": garbage, "poison": poison}


# ---- coroutines: handlers that differ from the plain functions

async def in_thread(function, *arguments):
    """Runs the function in a thread and cannot be interrupted, because the connection of an Eye serves one call at a time."""
    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, *arguments))


async def async_wait(job):
    eye = Eye()
    await in_thread(eye.tell, job, "started")
    gate = job.payload.get("gate")
    try:
        while not await in_thread(eye.is_open, gate):
            await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        await in_thread(Eye().tell, job, job.cancelled)
        raise
    return {"gate": gate}


async def async_deaf(job):
    """Checks the database in a thread, because a blocked event loop would also delay the other handlers."""
    task = asyncio.ensure_future(in_thread(deaf, job))
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if job.cancelled is None:
                raise


async def async_sleep(job):
    await in_thread(Eye().tell, job, "started")
    await asyncio.sleep(job.payload["seconds"])
    return {}


async def async_progress(job):
    eye = Eye()
    await in_thread(eye.tell, job, "started")
    for step in range(1, job.payload["steps"] + 1):
        job.set_progress({"step": step})
    while not await in_thread(eye.is_open, job.payload.get("gate")):
        await asyncio.sleep(0.1)
    return {"steps": job.payload["steps"]}


async def async_transfer(job):
    await async_deaf(job)
    async with job.completing({"moved": True}) as connection:
        await connection.execute(EFFECT, (job.id, job.attempt, "transfer"))
        if "error" in job.payload and job.attempt == 1:
            raise ValueError(job.payload["error"])


async def async_steps(job):
    eye = Eye()
    await in_thread(eye.tell, job, "started")
    results = []
    for name in job.payload["names"]:
        while name == job.payload.get("before") and not await in_thread(eye.is_open, job.payload.get("gate")):
            await asyncio.sleep(0.1)

        async def write(connection, name=name):
            await connection.execute(EFFECT, (job.id, job.attempt, name))
            return {"name": name}

        results.append(await job.step(name, write))
    return results


async def async_garbage(job):
    return "\0" if garbage_in(job, "result") else await async_wait(job)


def coroutine(function):
    async def handler(job):
        return function(job)
    return handler


ASYNC_HANDLERS = {**{kind: coroutine(function) for kind, function in HANDLERS.items()}, "wait": async_wait, "deaf": async_deaf,
                  "sleep": async_sleep, "progress": async_progress, "transfer": async_transfer, "steps": async_steps,
                  "garbage": async_garbage}


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        options = jobq.options_of_environment()
        if sys.argv[1:] == ["async"]:
            jobq.serve(jobq.AsyncWorker(handlers=ASYNC_HANDLERS, **options))
        jobq.serve(jobq.Worker(handlers=HANDLERS, **options))
    except (jobq.OptionError, RuntimeError, psycopg.Error) as error:
        sys.exit(f"scenario_worker: {error}")


if __name__ == "__main__":
    main()
