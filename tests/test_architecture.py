"""That docs/architecture.md draws the house that stands here."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_the_drawing_names_exists():
    named = {name for name in re.findall(r"`([a-z_/]+(?:\.py|\.lua|/))`", TEXT) if "/" in name or name.endswith(".py")}
    missing = [name for name in sorted(named) if not any((base / name).exists() for base in (ROOT, ROOT / "rqmail"))]
    assert len(named) > 30
    assert missing == []


def test_every_name_in_the_package_is_in_the_drawing():
    names = {
        path.name for path in (ROOT / "rqmail").iterdir() if not path.name.startswith("__") and path.name != "py.typed"
    }
    assert [name for name in sorted(names) if name not in TEXT] == []
