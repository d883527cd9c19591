"""Secrets of the settings in files: ``RQMAIL_SECRET_KEY_FILE`` names the file that holds ``RQMAIL_SECRET_KEY``."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource, PydanticBaseSettingsSource

from rqmail.errors import SettingsError
from rqmail.text.decoding import decoded
from rqmail.text.values import trimmed

SUFFIX = "_FILE"

#: A secret is short: more is the wrong file.
_LARGEST_BYTES = 64 * 1024


class FileSettingsSource(PydanticBaseSettingsSource):
    """Reads the settings that are not shown from the files that ``…_FILE`` variables name, of the environment or .env.

    Raises :class:`~rqmail.errors.SettingsError` for a file that cannot be used, or a setting that is given twice.
    """

    def __init__(
        self,
        settings_cls: type[BaseSettings],
        given: Mapping[str, Any],
        env: EnvSettingsSource,
        dotenv: DotEnvSettingsSource,
    ) -> None:
        super().__init__(settings_cls)
        self._given = given
        self._variables = {**dotenv.env_vars, **env.env_vars}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Answer the text of the field's file; ``None`` where no variable names one."""
        path = None if field_name in self._given or not is_secret(field) else self._path(field_name)
        if path is None:
            return None, field_name, False
        variable = f"{self._prefix}{field_name}".upper()
        if self._variables.get(variable.lower()):
            raise SettingsError(variable + SUFFIX, str(path), f"only without {variable}: one of the two")
        return _read(variable + SUFFIX, path), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Answer what the files hold, by field."""
        read = {name: self.get_field_value(field, name)[0] for name, field in self.settings_cls.model_fields.items()}
        return {name: text for name, text in read.items() if text is not None}

    def paths(self) -> dict[str, Path]:
        """Answer the files that are named, by the field that is read from them."""
        fields = self.settings_cls.model_fields.items()
        found = {name: self._path(name) for name, field in fields if is_secret(field)}
        return {name: path for name, path in found.items() if path is not None}

    def _path(self, name: str) -> Path | None:
        text = trimmed(self._variables.get(f"{self._prefix}{name}{SUFFIX}".lower()) or "")
        return Path(text).expanduser() if text else None

    @property
    def _prefix(self) -> str:
        return self.settings_cls.model_config.get("env_prefix", "")


def is_secret(field: FieldInfo) -> bool:
    """Say whether a setting is a secret, or an address that may hold a password: it may be read from a file."""
    return not field.repr or "SecretStr" in str(field.annotation)


def readable_by_others(path: Path) -> bool:
    """Say whether everybody on this machine may read the file."""
    return bool(path.stat().st_mode & stat.S_IROTH)


def _read(variable: str, path: Path) -> str:
    try:
        mode = path.stat().st_mode
        data = path.read_bytes() if stat.S_ISREG(mode) and path.stat().st_size <= _LARGEST_BYTES else None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise SettingsError(variable, str(path), f"a file that can be read; {reason}") from None
    if data is None:
        raise SettingsError(variable, str(path), "an ordinary file of at most 64 KB that holds the value alone")
    if mode & stat.S_IWOTH:
        raise SettingsError(variable, str(path), "a file that not everybody may write to: chmod 600")
    text = trimmed(decoded(data))
    if not text:
        raise SettingsError(variable, str(path), "a file that holds the value; it is empty")
    return text
