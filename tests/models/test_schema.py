"""That the tables the migrations make are the tables the models speak of."""

from __future__ import annotations

import importlib
import pkgutil

import peewee
import pytest

import rqmail.models
from rqmail.models.base import BaseModel, db
from rqmail.models.mailbox import TenantMailSetting
from support.clock import START

#: What each database calls a column of this kind, as far as its introspection says.
KINDS = {
    "sqlite": {"CharField": "varchar", "TextField": "text", "IntegerField": "integer", "SmallIntegerField": "smallint",
               "BigIntegerField": "bigint", "BooleanField": "boolean", "FloatField": "real", "AutoField": "integer",
               "BlobField": "blob", "UtcDateTimeField": "text", "_UtcDateTimeField": "text"},
    "postgresql": {"CharField": "character varying", "TextField": "text", "IntegerField": "integer",
                   "SmallIntegerField": "smallint", "BigIntegerField": "bigint", "BooleanField": "boolean",
                   "FloatField": "real", "AutoField": "integer", "BlobField": "bytea",
                   "_UtcDateTimeField": "timestamp with time zone"},
}  # fmt: skip


def models() -> list[type[BaseModel]]:
    for module in pkgutil.iter_modules(rqmail.models.__path__, "rqmail.models."):
        importlib.import_module(module.name)
    return BaseModel.__subclasses__()


def test_every_model_has_its_table_with_its_columns_and_no_others(database):
    tables = {table for table in db.get_tables() if table != "schema_migration" and not table.startswith("sqlite_")}
    assert {model._meta.table_name for model in models()} == tables
    for model in models():
        table = model._meta.table_name
        expected = {field.column_name: field.null for field in model._meta.sorted_fields}
        assert {column.name: column.null for column in db.get_columns(table)} == expected, table


def test_every_column_has_the_type_and_length_its_field_has(database):
    for model in models():
        types = {column.name: column.data_type.lower() for column in db.get_columns(model._meta.table_name)}
        for field in model._meta.sorted_fields:
            plain = field.rel_field if isinstance(field, peewee.ForeignKeyField) else field
            kind = KINDS[database.kind][type(plain).__name__]
            if database.kind == "sqlite" and kind == "varchar":
                kind = f"varchar({plain.max_length})"
            assert types[field.column_name] == kind, (model, field)


def test_every_table_has_the_key_and_the_references_its_model_has(database):
    for model in models():
        table, key = model._meta.table_name, model._meta.primary_key
        names = key.field_names if isinstance(key, peewee.CompositeKey) else [key.name]
        expected = [model._meta.fields[name].column_name for name in names]
        assert db.get_primary_keys(table) == expected, table
        references = {(ref.column, ref.dest_table, ref.dest_column) for ref in db.get_foreign_keys(table)}
        wanted = {
            (field.column_name, field.rel_model._meta.table_name, field.rel_field.column_name)
            for field in model._meta.sorted_fields
            if isinstance(field, peewee.ForeignKeyField)
        }
        assert references == wanted, table


def test_a_provider_we_do_not_have_is_refused_by_the_database_itself(database):
    with pytest.raises(peewee.IntegrityError):
        TenantMailSetting.create(key="acme", provider="smtp", created_on=START, changed_on=START)
    db.close()
