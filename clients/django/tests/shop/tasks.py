"""Tasks for the tests."""

import os
import signal

from django.db import connection, transaction

import jobq
from jobq_django import task

from .models import Order


@task
def charge(order_id, *, amount=1):
    Order.objects.filter(pk=order_id).update(charged=amount)
    return {"amount": amount}


@task(queue="unused", max_attempts=7, unique_key=lambda product: f"product {product}", metadata={"team": "red"})
def index(product):
    return product


@task(name="flaky", takes_job=True)
def fail_first(job, times):
    Order.objects.create(name=f"attempt {job.attempt}")
    if job.attempt <= times:
        raise jobq.Fail("not yet", retry_in=3600)
    return job.attempt


@task(takes_job=True, atomic=True)
def exact(job, what):
    Order.objects.create(name=f"{what} {job.attempt}")
    if what == "error" and job.attempt == 1:
        raise ValueError("no")
    if what == "steal":
        steal(job)
    if what == "caught":
        with transaction.atomic():
            Order.objects.create(name="inner")
    return what


@task(takes_job=True)
def patient(job):
    job.set_progress({"percent": 50})
    while True:
        job.pause(0.05)


@task
def break_connection():
    """Makes the server end this thread's connection, so that the next task needs a new one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        pid = cursor.fetchone()[0]
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
    other.close()   # otherwise DROP DATABASE fails because of this connection
    Order.objects.count()


calls = 0


def collide(times, when):
    """Creates an order. In the given number of calls, the order collides (see tests.py), either in a statement or at the commit."""
    global calls
    calls += 1
    with transaction.atomic():
        if when == "statement":
            with connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        Order.objects.create(name=f"call {calls}", charged=calls if calls <= times else 0)


colliding = task(name="colliding")(collide)
colliding_atomic = task(name="colliding_atomic", atomic=True)(collide)


def steal(job):
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("UPDATE jobq.jobs SET status = 'pending' WHERE id = %s", [job.id])
        cursor.execute("SELECT id FROM jobq_claim(%s, 'thief', heartbeat_timeout => '1 day')", [job.queue])
    other.close()


@task(takes_job=True, atomic=True)
def killed(job, _):
    """Kills its process after the completion has been sent, but before the commit."""
    Order.objects.create(name=f"killed {job.attempt}")
    if job.attempt == 1:
        connection.execute_wrappers.append(kill_after_completion)


def kill_after_completion(execute, sql, params, many, context):
    result = execute(sql, params, many, context)
    if "jobq_complete" in sql:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
