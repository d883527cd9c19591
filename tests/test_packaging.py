"""That an installed rqmail has all of its own files, and everything its code imports."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]

#: Distributions that are part of another one's promise, and need not be asked for by name.
COME_WITH = {"urllib3": "requests", "werkzeug": "flask", "markupsafe": "flask", "jinja2": "flask", "pyjwt": "msal"}
COME_WITH |= {"pydantic": "pydantic-settings", "pydantic-core": "pydantic-settings", "psycopg-binary": "psycopg"}


def plain(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def setup_cfg() -> configparser.ConfigParser:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    return config


def asked_for() -> set[str]:
    """Every distribution setup.cfg names for those who run rqmail; what only its developers need is left out."""
    config = setup_cfg()
    lists = [config["options"]["install_requires"]]
    lists += [wanted for extra, wanted in config["options.extras_require"].items() if extra != "dev"]
    lines = [line.strip() for text in lists for line in text.splitlines()]
    return {plain(re.split(r"[\[<>=!~; ]", line)[0]) for line in lines if line and not line.startswith("%")}


def test_every_package_the_code_imports_is_asked_for_by_name():
    graph = grimp.build_graph("rqmail", "jobs", include_external_packages=True, cache_dir=None)
    outside = {module for module in graph.modules if module.split(".")[0] not in {"rqmail", "jobs"}}
    names = packages_distributions()
    missing = {}
    for module in sorted(outside - set(sys.stdlib_module_names)):
        providers = {plain(name) for name in names.get(module, [module])}
        wanted = providers | {COME_WITH[name] for name in providers if name in COME_WITH}
        if not wanted & asked_for():
            missing[module] = sorted(graph.find_modules_that_directly_import(module))
    assert missing == {}


def test_every_folder_with_code_is_a_package():
    folders = {path.parent for path in (ROOT / "rqmail").rglob("*.py")}
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_every_file_beside_the_code_is_installed_with_it():
    patterns = {
        ROOT / package.replace(".", "/"): [pattern.strip() for pattern in wanted.split(",")]
        for package, wanted in setup_cfg()["options.package_data"].items()
        if package != "*"
    }
    installed = {path for folder, wanted in patterns.items() for pattern in wanted for path in folder.glob(pattern)}
    installed |= set((ROOT / "rqmail").rglob("py.typed"))
    files = {path for path in (ROOT / "rqmail").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    sources = {".py", ".po", ".pot"}  # catalogues are installed compiled
    assert sorted(path for path in files - installed if path.suffix not in sources) == []


def test_a_wheel_has_every_catalogue_compiled_and_no_source_of_one(tmp_path):
    pytest.importorskip("setuptools", minversion="70.1")
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "rqmail", tree / "rqmail", ignore=shutil.ignore_patterns("*.mo", "__pycache__"))
    shutil.copytree(ROOT / "jobs", tree / "jobs", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    build = f"import setuptools.build_meta as backend; print(backend.build_wheel({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if "/translations/" in name}
    there = {path.relative_to(ROOT).with_suffix(".mo") for path in (ROOT / "rqmail").rglob("translations/*/*/*.po")}
    assert packed == {str(path) for path in there} != set()
