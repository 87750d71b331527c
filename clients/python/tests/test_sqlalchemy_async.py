"""Tests enqueues in the transactions of SQLAlchemy's AsyncSession and AsyncConnection, with each driver that is installed."""

import asyncio
import contextlib
import importlib.util
import unittest
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import jobq
from support import Base

try:
    import sqlalchemy
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
    from sqlalchemy.pool import NullPool
except ImportError:
    raise unittest.SkipTest("there is no SQLAlchemy: apt-get install python3-sqlalchemy") from None

# SQLAlchemy 1.4 supports psycopg 2 only.
DRIVERS = [name for name, since in (("asyncpg", "1.4"), ("psycopg", "2")) if importlib.util.find_spec(name) and sqlalchemy.__version__ >= since]


class Stop(Exception):
    pass


@contextlib.asynccontextmanager
async def session_of(engine):
    async with AsyncSession(engine) as session, session.begin():
        yield session


@unittest.skipIf(not DRIVERS, "there is no driver: apt-get install python3-asyncpg")
class AsyncSqlAlchemyTest(Base):
    def count(self):
        return self.value("SELECT count(*) FROM jobq.jobs WHERE queue = %s", self.queue)

    def engine(self, driver):
        info = self.connection.info
        return create_async_engine(f"postgresql+{driver}://", poolclass=NullPool, connect_args={
            "host": info.host, "port": info.port, "user": info.user, "password": info.password or None,
            "database" if driver == "asyncpg" else "dbname": info.dbname})

    async def enqueue(self, connection):
        options = {"run_at": datetime(2100, 1, 2, tzinfo=timezone.utc), "unique_key": "u", "unique_for": 60, "max_runtime": timedelta(hours=2),
                   "requires": ["gpu"], "metadata": {"percent": "100%"}}
        job = await jobq.aenqueue(connection, self.queue, {"text": "%s"}, kind="x", priority=3, **options)
        [many] = await jobq.aenqueue_many(connection, self.queue, [[1]], unique_keys=["u"], run_ats=[options["run_at"]])
        [spec] = await jobq.aenqueue_jobs(connection, [{"queue": self.queue, "depends_on": [job]}])
        self.assertEqual((many.job_id, many.is_new, spec.is_new, self.count()), (job, False, True, 0))

    async def run_in(self, begin, stop):
        async with begin() as connection:
            await self.enqueue(connection)
            if stop:
                raise Stop

    def test_a_commit_keeps_the_jobs_and_a_rollback_removes_them(self):
        async def run():
            for driver in DRIVERS:
                engine = self.engine(driver)
                for begin in (engine.begin, lambda: session_of(engine)):
                    with self.subTest(driver=driver, begin=begin):
                        with self.assertRaises(Stop):
                            await self.run_in(begin, stop=True)
                        self.assertEqual(self.count(), 0)
                        await self.run_in(begin, stop=False)
                        self.assertEqual(self.count(), 2)
                        self.connection.execute("DELETE FROM jobq.jobs WHERE queue = %s", [self.queue])

        asyncio.run(run())

    def test_asyncpg_has_other_placeholders_in_sqlalchemy_2(self):
        executed = []
        connection = SimpleNamespace(dialect=SimpleNamespace(paramstyle="numeric_dollar"), exec_driver_sql=lambda *call: executed.append(call) or [(7,)])
        self.assertEqual(jobq.enqueue(connection, self.queue, 1), 7)
        self.assertEqual(executed, [("SELECT jobq_enqueue($1::text, $2::jsonb)", (self.queue, "1"))])


if __name__ == "__main__":
    unittest.main()
