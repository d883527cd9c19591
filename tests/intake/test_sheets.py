"""Spreadsheets themselves, as Excel and LibreOffice save them."""

import io
import resource
import zipfile
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


def far_away():
    """A few kilobytes: one cell in the first place, one in the last."""
    book = openpyxl.Workbook()
    book.active["A1"] = "to"
    book.active["XFD1048576"] = "x"
    file = io.BytesIO()
    book.save(file)
    return file


def bomb(rows=400_000):
    """A file that unpacks to a thousand times its size: the same row again and again."""
    small = excel(A=[["to", "subject", "text"]])
    file = io.BytesIO()
    row = b"<row>" + b'<c t="str"><v>x</v></c>' * 20 + b"</row>"
    with zipfile.ZipFile(small) as whole, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for one in whole.namelist():
            content = whole.read(one)
            if one.endswith("sheet1.xml"):
                content = content.replace(b"</sheetData>", row * rows + b"</sheetData>")
            packed.writestr(one, content)
    assert len(file.getvalue()) * 50 < len(row) * rows
    return file


@pytest.mark.parametrize("content", [far_away, bomb])
def test_a_small_spreadsheet_that_unpacks_to_much_more_is_refused_and_this_process_keeps_its_size(content):
    file = content()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInputError, match=r"too large.*save it as CSV"):
        list(sheet_rows(file, memory=256 * 2**20))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024


def test_nobody_waits_for_the_rest_of_a_sheet_that_is_not_read_to_its_end():
    rows = sheet_rows(excel(A=[["to"], *[["x" * 1000]] * 2000]))
    assert next(rows) == (1, ["to"])
    rows.close()
