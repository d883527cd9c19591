"""Lists: people once each, what is wrong with rows by number and column, and every other column as data."""

from __future__ import annotations

import io

import pytest

from rqmail.campaigns.audience import ListReading, read_audience
from rqmail.errors import InvalidInputError


def read(text, encoding="utf-8", **reading):
    return read_audience(io.BytesIO(text.encode(encoding)), ListReading(**reading))


def test_every_column_but_the_address_is_data():
    people = read("to,First name,Amount\nZoë <zoe@example.org>,Zoë,12\nan@example.org,An,\n")
    assert people.fields == ("first_name", "amount")
    assert [(one.row, one.address, one.name, one.values) for one in people.people] == [
        (2, "zoe@example.org", "Zoë", ("Zoë", "12")),
        (3, "an@example.org", "", ("An", "")),
    ]
    assert people.empty_in({"first_name", "amount"}) == {"amount": [3]}


def test_bad_rows_and_repeated_people_are_told_with_their_row():
    people = read("to;name\nan@example.org;An\nnobody;X\nAN@Example.org;An\na@x.nl, b@x.nl;Two\n;Y\nc@x.nl;C;more\n\n")
    assert (people.rows, people.invalid, people.duplicates) == (6, 4, 1)
    assert [(one.row, one.column) for one in people.problems] == [(3, "to"), (5, "to"), (6, "to"), (7, "row")]
    assert [one.row for one in people.repeated] == [4]
    assert [one.address for one in people.people] == ["an@example.org"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_files_are_read_as_spreadsheets_write_them(encoding):
    people = read("My list\n\nto;naam\nzoe@example.org;Zoë Müller\njo@example.org;Joëlle Façon\n", encoding)
    assert [one.values for one in people.people] == [("Zoë Müller",), ("Joëlle Façon",)]


def test_the_column_of_addresses_may_have_another_name():
    people = read("E-mail,name\nan@example.org,An\n", to="E-mail")
    assert people.fields == ("name",)
    with pytest.raises(InvalidInputError, match=r"a column 'to'"):
        read("E-mail,name\nan@example.org,An\n")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "a column 'to'"),
        ("to,name,Name\na@x.nl,1,2\n", "each column once"),
        ("to,to_name\na@x.nl,1\n", "a name that is not one of"),
        ("to,name\n", "at least one row"),
        ("to,to\na@x.nl,b@x.nl\n", "one column of addresses"),
    ],
)
def test_what_is_no_list_is_refused_with_the_reason(text, match):
    with pytest.raises(InvalidInputError, match=match):
        read(text)
