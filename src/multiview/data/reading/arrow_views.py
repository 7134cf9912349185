"""Texts and bytes that Arrow holds as views, which it cannot filter, as plain ones."""

from __future__ import annotations

import pyarrow as pa


def without_views(table: pa.Table) -> pa.Table:
    """Returns a table with `string` and `binary` in place of `string_view` and `binary_view`, within lists, structs and
    maps too; the same object where it has none."""
    plain = pa.schema([_plain(field) for field in table.schema])
    return table if table.schema.equals(plain) else table.cast(plain)


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([_plain(field) for field in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_field), _plain(kind.item_field), kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_field), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_field))
    return pa.list_(_plain(kind.value_field)) if pa.types.is_list(kind) else kind
