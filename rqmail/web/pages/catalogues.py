"""The gettext catalogues: compiled where they are missing or older than what they are made from.

An installed rqmail has them compiled. A checkout has only the sources (``.po``); ``make setup`` compiles them, and so
does the first process that needs them after one was edited.
"""

from __future__ import annotations

import os
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from rqmail.logs import event_log

log = event_log(__name__)


def compiled(folder: Path) -> list[str]:
    """Compile what has to be, and answer the codes of the languages that there are catalogues of."""
    for source in sorted(folder.glob("*/LC_MESSAGES/*.po")):
        target = source.with_suffix(".mo")
        if target.is_file() and target.stat().st_mtime_ns >= source.stat().st_mtime_ns:
            continue
        try:
            _compile(source, target)
        except OSError as error:
            log.warning(
                "web.catalogue.notCompiled", file=str(source), err=str(error), then="its language is not current"
            )
    return sorted(path.parents[1].name for path in folder.glob("*/LC_MESSAGES/*.mo"))


def _compile(source: Path, target: Path) -> None:
    """Compile one in a single step: another process sees the whole catalogue or the one before."""
    with source.open("rb") as file:
        catalogue = read_po(file, locale=source.parents[1].name)
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            write_mo(file, catalogue)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
