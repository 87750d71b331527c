"""What the tests against a server share."""

import time
import unittest
import uuid

import psycopg

LIMIT = 120


class Base(unittest.TestCase):
    def setUp(self):
        self.queue = f"test {uuid.uuid4().hex[:12]}"
        self.connection = psycopg.connect(autocommit=True)
        self.addCleanup(self.connection.close)

    def value(self, statement, *parameters):
        return self.connection.execute(statement, parameters).fetchone()[0]

    def becomes(self, expected, statement, *parameters):
        """Waits until the statement returns this value."""
        deadline = time.monotonic() + LIMIT
        while (value := self.value(statement, *parameters)) != expected:
            self.assertLess(time.monotonic(), deadline, f"{statement}: {value}")
            time.sleep(0.02)
