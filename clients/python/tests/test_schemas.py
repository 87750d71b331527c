"""Tests the conversion of values to JSON and back. Needs no server."""

import enum
import json
import sys
import unittest
import unittest.mock
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Dict, List, Literal, Mapping, NewType, Optional, Sequence, Set, Tuple, TypedDict, Union
from uuid import UUID

from jobq import OptionError
from jobq.schemas import Mismatch, schema_of

try:
    import pydantic
except ImportError:
    pydantic = None

Address = NewType("Address", str)


class Color(enum.Enum):
    RED = "red"
    BLUE = 2


@dataclass
class Person:
    name: str
    address: Optional[Address] = None


@dataclass
class Mail:
    to: List[Person]
    at: Optional[datetime] = None
    retries: int = field(default=3)
    answers: "Optional[Mail]" = None
    length: int = field(default=0, init=False)

    def __post_init__(self):
        if self.retries < 0:
            raise ValueError("retries is negative")


class Row(TypedDict, total=False):
    n: int


class Order(Row):
    pass


class Total(TypedDict):
    n: int


NOON = datetime(2030, 1, 2, 12, tzinfo=timezone(timedelta(hours=1)))
NUMBER = UUID(int=7)


class SchemaTest(unittest.TestCase):
    def rejects(self, convert, value, message):
        with self.assertRaises(Mismatch) as caught:
            convert(value, "")
        self.assertEqual(str(caught.exception), message)

    def test_values_survive(self):
        for annotation, value, dumped in (
                (str, "a", "a"), (int, 2**70, 2**70), (float, 0.5, 0.5), (float, 1, 1.0), (bool, True, True), (Optional[int], None, None),
                (datetime, NOON, "2030-01-02T12:00:00+01:00"), (date, NOON.date(), "2030-01-02"), (UUID, NUMBER, str(NUMBER)),
                (Decimal, Decimal("1.10"), "1.10"), (Color, Color.BLUE, 2), (Literal["a", 1], 1, 1), (Any, [1, {"a": None}], [1, {"a": None}]),
                (dict, {"a": [1]}, {"a": [1]}), (list, [1, "a"], [1, "a"]), (List[Color], [Color.RED], ["red"]), (Sequence[int], [1], [1]),
                (Tuple[int, ...], (1, 2), [1, 2]), (Tuple[int, str], (1, "a"), [1, "a"]), (Dict[str, date], {"a": NOON.date()}, {"a": "2030-01-02"}),
                (Mapping[str, int], {"a": 1}, {"a": 1}), (Total, {"n": 1}, {"n": 1}), (Row, {}, {}), (Order, {"n": 1}, {"n": 1}),
                (Union[int, Person], Person("ada"), {"name": "ada", "address": None}),
                (Mail, Mail([Person("ada", Address("a@b"))], NOON, answers=Mail([])),
                 {"to": [{"name": "ada", "address": "a@b"}], "at": "2030-01-02T12:00:00+01:00", "retries": 3,
                  "answers": {"to": [], "at": None, "retries": 3, "answers": None}})):
            with self.subTest(annotation=annotation):
                schema = schema_of(annotation)
                self.assertEqual(schema.dump(value, ""), dumped)
                found = schema.load(json.loads(json.dumps(dumped)), "")
                self.assertEqual((found, type(found)), (value, type(dumped if annotation is float else value)))

    def test_defaults_apply_to_missing_members(self):
        self.assertEqual(schema_of(Mail).load({"to": []}, ""), Mail([]))
        self.assertEqual(schema_of(datetime).load("2030-01-02T11:00:00Z", ""), NOON)

    def test_values_of_other_types_are_rejected(self):
        it_is = "; it is of type"
        for annotation, value, message in (
                (str, 5, f"the value must be a text{it_is} int"), (int, True, f"the value must be an integer{it_is} bool"),
                (int, 1.0, f"the value must be an integer{it_is} float"), (float, float("nan"), f"the value must be a finite number{it_is} float"),
                (bool, 1, f"the value must be true or false{it_is} int"), (Optional[str], 5, f"the value must be a text or must be null{it_is} int"),
                (datetime, NOON.replace(tzinfo=None), f"the value must be a time with a time zone{it_is} datetime"),
                (date, NOON, f"the value must be a date{it_is} datetime"), (UUID, "x", f"the value must be a UUID{it_is} str"),
                (Decimal, 1, f"the value must be a finite decimal number{it_is} int"), (Color, "red", f"the value must be a Color{it_is} str"),
                (Literal["a", 1], True, f"the value must be 'a' or 1{it_is} bool"), (List[int], "12", f"the value must be a list{it_is} str"),
                (List[int], [1, "2"], f'"[1]" must be an integer{it_is} str'),
                (Tuple[int, str], (1,), f"the value must be a list with 2 elements{it_is} tuple"),
                (Dict[str, int], {1: 1}, f"the value must be a dict whose keys are texts{it_is} dict"),
                (Dict[str, int], {"a": "b"}, f'"a" must be an integer{it_is} str'),
                (Mail, {"to": []}, f"the value must be a Mail{it_is} dict"), (Mail, Mail([Person("ada"), Person(5)]), f'"to[1].name" must be a text{it_is} int'),
                (Mail, Mail([], answers=Mail([], retries=3.5)), f'"answers.retries" must be an integer{it_is} float'),
                (Total, {}, 'the value must have the key "n"'), (Total, {"n": 1, "m": 2}, 'the value must have only the keys n; it has "m"')):
            with self.subTest(annotation=annotation, value=value):
                self.rejects(schema_of(annotation).dump, value, message)

    def test_json_of_other_types_is_rejected(self):
        it_is = "; it is of type"
        for annotation, value, message in (
                (datetime, "2030-01-02T12:00:00", f"the value must be a time with a time zone{it_is} str"), (datetime, 5, f"the value must be a time with a time zone{it_is} int"),
                (date, "soon", f"the value must be a date{it_is} str"), (Decimal, "1e", f"the value must be a finite decimal number{it_is} str"),
                (Decimal, "NaN", f"the value must be a finite decimal number{it_is} str"), (UUID, 5, f"the value must be a UUID{it_is} int"),
                (Color, "green", f"the value must be the value of a Color{it_is} str"), (Tuple[int, ...], {}, f"the value must be a list{it_is} dict"),
                (Person, [], f"the value must be an object with the keys name, address{it_is} list"), (Person, {}, 'the value must have the key "name"'),
                (Person, {"name": "ada", "age": 5}, 'the value must have only the keys name, address; it has "age"'),
                (Mail, {"to": [], "retries": -1}, "the value must be a valid Mail: retries is negative"),
                (Mail, {"to": [{"name": "ada", "address": 5}]}, f'"to[0].address" must be a text or must be null{it_is} int')):
            with self.subTest(annotation=annotation, value=value):
                self.rejects(schema_of(annotation).load, value, message)

    def test_fields_of_a_subclass_are_not_lost(self):
        @dataclass
        class Employee(Person):
            number: int = 0

        self.rejects(schema_of(Person).dump, Employee("ada"), "the value must be a Person; it is of type Employee")

    def test_other_types_need_pydantic(self):
        with unittest.mock.patch.dict(sys.modules, pydantic=None), self.assertRaisesRegex(OptionError, r"typing.Set\[int\] needs the package pydantic"):
            schema_of(Set[int])


@unittest.skipIf(pydantic is None, "there is no pydantic: apt-get install python3-pydantic")
class PydanticTest(unittest.TestCase):
    def setUp(self):
        class Item(pydantic.BaseModel):
            number: int = pydantic.Field(gt=0, alias="no")
            at: Optional[datetime] = None

        @dataclass
        class Cart:
            items: List[Item]

        self.Item, self.Cart = Item, Cart

    def test_models_survive(self):
        schema = schema_of(self.Item)
        item = self.Item(no=7, at=NOON)
        dumped = schema.dump(item, "")
        self.assertEqual(dumped, {"no": 7, "at": "2030-01-02T12:00:00+01:00"})
        self.assertEqual(schema.load(dumped, ""), item)

    def test_models_within_other_types(self):
        for annotation, value in ((self.Cart, self.Cart([self.Item(no=7)])), (Set[int], {1}), (Optional[self.Item], self.Item(no=7))):
            schema = schema_of(annotation)
            self.assertEqual(schema.load(json.loads(json.dumps(schema.dump(value, ""))), ""), value)

    def test_invalid_values_are_named(self):
        schema = schema_of(self.Cart)
        with self.assertRaisesRegex(Mismatch, r'the value does not have its type: "items\[0\].no": .*greater than 0'):
            schema.load({"items": [{"no": 0}]}, "")
        with self.assertRaisesRegex(Mismatch, r'the value does not have its type: "items\[0\].no": .*greater than 0'):
            schema.dump(self.Cart([{"no": 0}]), "")


if __name__ == "__main__":
    unittest.main()
