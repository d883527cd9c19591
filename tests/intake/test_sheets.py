"""Spreadsheets themselves, as Excel and LibreOffice save them."""

import io
from datetime import datetime

import openpyxl
import pytest
from odf.opendocument import OpenDocumentSpreadsheet
from odf.table import Table, TableCell, TableRow
from odf.text import P

from rqmail.errors import InvalidInputError
from rqmail.intake.files import Reading, drafts
from rqmail.intake.moments import local_time
from rqmail.intake.sheets import sheet_rows

ROWS = [
    ["Ledenlijst"],
    [],
    ["to", "subject", "text", None],
    ["zoë@x.nl", "Één", "regel 1\nregel 2"],
    [],
    ["a@x.nl", 2026, "t"],
]


def excel(**sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return file


def libreoffice(**sheets):
    book = OpenDocumentSpreadsheet()
    for name, rows in sheets.items():
        table = Table(name=name)
        for row in rows:
            line = TableRow()
            for value in row:
                number = {"valuetype": "float", "value": value} if isinstance(value, int) else {"valuetype": "string"}
                cell = TableCell(**number) if value is not None else TableCell()
                for text in str(value or "").split("\n"):
                    cell.addElement(P(text=text))
                line.addElement(cell)
            table.addElement(line)
        book.spreadsheet.addElement(table)
    file = io.BytesIO()
    book.save(file)
    return file


@pytest.fixture(params=[excel, libreoffice], ids=["xlsx", "ods"])
def workbook(request):
    return request.param


def test_the_first_sheet_is_read_with_titles_blank_rows_and_numbers(workbook):
    first, second = drafts(workbook(Leden=ROWS, Anders=[["x"]]), "default")
    assert (first.to, first.subject, first.text) == ("zoë@x.nl", "Één", "regel 1\nregel 2")
    assert (second.to, second.subject) == ("a@x.nl", "2026")


def test_another_sheet_is_read_when_it_is_named(workbook):
    file = workbook(Anders=[["x"]], Leden=ROWS)
    assert [row for row, cells in sheet_rows(file, "Leden") if any(cells)] == [1, 3, 4, 6]
    with pytest.raises(InvalidInputError, match="did you mean 'Leden'"):
        list(sheet_rows(file, "Lede"))


def test_a_cell_with_a_date_is_local_in_the_zone_that_was_named():
    file = excel(A=[["to", "subject", "text", "at"], ["a@x.nl", "s", "t", datetime(2026, 12, 24, 9)]])  # noqa: DTZ001
    [draft] = drafts(file, "default", Reading(local_time=local_time("Europe/Amsterdam", None)))
    assert draft.at == "2026-12-24T09:00:00+01:00"


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"PK\x03\x04" + b"x" * 5000, b"\xd0\xcf\x11\xe0" + bytes(600)])
def test_a_damaged_spreadsheet_is_refused(content):
    with pytest.raises(InvalidInputError, match="spreadsheet"):
        list(sheet_rows(io.BytesIO(content)))
