"""The colours: readable on each other, in the light and in the dark (WCAG 2, level AA)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rqmail.web

SHEET = (Path(rqmail.web.__file__).parent / "static" / "pages.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", SHEET, re.S)
)

TEXT = [
    *((ink, ground) for ink in ("ink", "muted", "accent") for ground in ("ground", "surface", "sunken")),
    *((one, f"{one}-soft") for one in ("good", "warn", "bad", "accent")),
    *((one, "surface") for one in ("good", "warn", "bad")),
    ("good", "ground"),
    ("on-accent", "accent"),
    ("ink", "warn-soft"),
    ("ink", "bad-soft"),
    ("accent", "warn-soft"),
]
SHAPES = [(shape, "surface") for shape in ("chart-sent", "chart-failed", "fill-ok", "good", "bad")]


def luminance(colour):
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_can_be_read_on_its_ground(scheme, ink, ground):
    assert contrast(scheme[ink], scheme[ground]) >= 4.5


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("shape", "ground"), SHAPES)
def test_a_shape_that_tells_something_stands_out(scheme, shape, ground):
    assert contrast(scheme[shape], scheme[ground]) >= 3
