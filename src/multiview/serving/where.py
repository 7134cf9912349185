"""Conditions on the columns of a corpus, as text: `where` of a search.

    day >= "2020-01-05" and (source in ("news", "wiki") or not archived) and url is not null

A condition compares a column with a value: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in (…)`, `not in (…)`, `is null`, `is not
null`; a value is in a column of lists by `"value" in column`. A column of booleans is a condition by itself. Conditions
are joined by `and`, `or`, `not` and parentheses. Values are strings, numbers, `true`, `false` and `null`; days and
times are strings in ISO 8601. `columns["a name"]` is a column whose name is no identifier.

A missing value (null, NaN) equals null alone and is neither smaller nor larger than any value, so `url != "x"` is true
where `url` is missing. Every condition is true or false of every passage; there is no third value.

What cannot be compared exactly is refused: a fraction with whole numbers, more digits than a decimal or a time has.

Python's parser reads the text into a syntax tree; nothing of it is executed.
"""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ast
import io
import math
import operator
import re
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.passages import SCHEMA, PassageRows
from multiview.errors import InputError, nearest

MOST_CHARACTERS = 2000
"""Characters of a condition at most."""

MOST_NESTED = 50
"""Conditions within conditions at most."""

CONSTANTS = {"null": None, "true": True, "false": False}
Mask: TypeAlias = np.ndarray
"""Whether each row satisfies something [rows] bool."""
Value: TypeAlias = str | bool | int | float

OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
FUNCTIONS = {"==": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
SLIPS = {"=": "==", ":=": "==", "&": "and", "|": "or", "!": "not"}
"""Operators of other languages, and ours."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with its sides exchanged."""
TOO_FINE = re.compile(r"[.,]\d{7}")
"""Fractions of a second that Python's parser would cut."""


class ConditionError(InputError):
    """A text that is no condition on the columns of a corpus; the line names the position."""


class Where:
    """A condition, read from a text for a corpus of certain columns.

    >>> table = pa.record_batch({"id": ["a", "b", "c"], "year": [1999, 2004, None]})
    >>> where = Where("year < 2000 or year is null", table.schema)
    >>> where.columns, where.mask(table).tolist()
    (['year'], [True, False, True])
    """

    def __init__(self, text: str, schema: pa.Schema) -> None:
        """Raises ConditionError, with one line that names the position, for a text that is no condition on `schema`."""
        self._text, self._flat, self._schema = text, text.lstrip(), schema
        self.columns: list[str] = []
        """The columns that the condition reads, in the order of their first use."""
        self._tree = self._parsed()
        # What is wrong with a condition is found without rows.
        self.mask(pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema.names))

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Returns which rows of a batch, which has `columns` at least, satisfy the condition [rows] bool."""
        return self._mask(self._tree, batch, 0)

    def _parsed(self) -> ast.expr:
        if len(self._text) > MOST_CHARACTERS:
            raise ConditionError(f"where: {len(self._text)} characters; at most {MOST_CHARACTERS} are read")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strings with unknown escapes, which it would print
                # An indented expression is none; blanks are taken for the line ends, which need no parentheses here.
                return ast.parse(" ".join(self._flat.split("\n")), mode="eval").body
        except SyntaxError as error:
            if slip := _slip(self._flat):
                raise self._error_at(*slip) from None
            if not error.offset:
                raise self._error_at(len(self._flat), "it ends where more is expected") from None
            raise self._error_at(error.offset - 1, error.msg) from None
        except (ValueError, MemoryError, RecursionError):
            raise ConditionError("where: this text cannot be read as a condition") from None

    def _mask(self, node: ast.expr, batch: pa.RecordBatch, depth: int) -> Mask:
        if depth > MOST_NESTED:
            raise self._error(node, f"more than {MOST_NESTED} conditions within conditions")
        match node:
            case ast.BoolOp(op=op, values=values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                return reduce(join, [self._mask(value, batch, depth + 1) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self._mask(operand, batch, depth + 1)
            case ast.Compare(left=left, ops=ops, comparators=others):
                # `1 < x < 3` is `1 < x and x < 3`.
                pairs = zip([left, *others], ops, others, strict=False)
                return reduce(operator.and_, [self._compared(batch, *pair) for pair in pairs])
            case ast.Constant(value=bool(value)):
                return np.full(batch.num_rows, value)
            case ast.Name(id=name) if isinstance(CONSTANTS.get(name), bool):
                return np.full(batch.num_rows, CONSTANTS[name])
        if (name := self._column(node)) is not None:
            if not pa.types.is_boolean(self._schema.field(name).type):
                raise self._error(node, f"column {name} is no condition; compare it with a value")
            return _true(batch.column(name))
        raise self._error(node, 'a condition is expected here, such as year >= 2000 or url != "…"')

    def _compared(self, batch: pa.RecordBatch, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Mask:
        symbol = OPERATORS[type(op)]
        if symbol in ("in", "not in"):
            return self._within(batch, left, right) == (symbol == "in")
        name, value_node = self._column(left), right
        if name is None:
            name, value_node, symbol = self._column(right), left, MIRRORED.get(symbol, symbol)
        if name is None:
            raise self._error(left, "a comparison is of a column with a value")
        if self._column(value_node) is not None:
            raise self._error(value_node, "two columns cannot be compared; give a value")
        value = self._value(value_node)
        if value is None and symbol in ("<", "<=", ">", ">="):
            raise self._error(value_node, "null is neither smaller nor larger than anything; use == or !=")
        if value is not None and symbol in ("is", "is not"):
            raise self._error(value_node, "only null follows is; use ==")
        equality = {"is": "==", "is not": "==", "!=": "=="}.get(symbol, symbol)
        mask = self._with_value(value_node, name, batch.column(name), equality, value)
        return mask != (symbol in ("!=", "is not"))

    def _within(self, batch: pa.RecordBatch, left: ast.expr, right: ast.expr) -> Mask:
        """`column in (values)`, or `value in column` of lists."""
        found = np.zeros(batch.num_rows, bool)
        if (name := self._column(right)) is not None:
            column = batch.column(name)
            if not isinstance(column.type, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
                raise self._error(right, f"column {name} holds no lists; write {name} in (…)")
            if (value := self._value(left)) is None:
                raise self._error(left, "a value other than null is expected")
            equal = self._with_value(left, name, pc.list_flatten(column), "==", value)
            found[pc.list_parent_indices(column).to_numpy()[equal]] = True
            return found
        if (name := self._column(left)) is None:
            raise self._error(left, "a column is expected before in")
        # Python reads a single value in parentheses as the value.
        for node in right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]:
            found |= self._with_value(node, name, batch.column(name), "==", self._value(node))
        return found

    def _with_value(self, node: ast.expr, name: str, column: Any, symbol: str, value: Value | None) -> Mask:
        if isinstance(column.type, pa.DictionaryType):
            column = column.dictionary_decode()
        if pa.types.is_floating(column.type):
            column = column.cast(pa.float64())
        if value is None:
            return _true(column.is_null(nan_is_null=pa.types.is_floating(column.type)))
        if pa.types.is_null(column.type):
            return np.zeros(len(column), bool)
        try:
            scalar = _scalar(column.type, value)
        except InputError as error:
            raise self._error(node, f"column {name} {error}") from None
        return _true(pc.call_function(FUNCTIONS[symbol], [column, scalar]))

    def _column(self, node: ast.expr) -> str | None:
        """The column that a node names; None for another node. Raises ConditionError for a column that is not there."""
        match node:
            case ast.Subscript(value=ast.Name(id="columns"), slice=ast.Constant(value=str(name))):
                pass
            case ast.Name(id=name) if name not in CONSTANTS:
                pass
            case _:
                return None
        names = list(column_names(self._schema))
        if name not in names and isinstance(node, ast.Name):
            # Python's parser takes names in NFKC.
            same = [column for column in names if unicodedata.normalize("NFKC", column) == name]
            name = same[0] if len(same) == 1 else name
        if name not in names:
            raise self._error(node, f"there is no column {name!r}{nearest(name, names)}")
        if name not in self.columns:
            self.columns.append(name)
        return name

    def _value(self, node: ast.expr) -> Value | None:
        """The value that a node writes. Raises ConditionError for any other node."""
        match node:
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.Constant(value=None):
                return None
            case ast.Constant(value=str() | bool() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if (
                not isinstance(value, bool)
            ):
                return -value
        raise self._error(node, "a string, a number, true, false or null is expected here")

    def _error(self, node: ast.expr, why: str) -> ConditionError:
        # Python counts bytes of UTF-8.
        return self._error_at(len(self._flat.encode()[: node.col_offset].decode()), why)

    def _error_at(self, offset: int, why: str) -> ConditionError:
        position = len(self._text) - len(self._flat) + offset + 1
        return ConditionError(f"where, character {position}: {why}")


def _true(column: pa.Array) -> Mask:
    return column.fill_null(False).to_numpy(zero_copy_only=False)


def _scalar(kind: pa.DataType, value: Value) -> pa.Scalar:
    """The value as exactly that value of a column's type. Raises InputError, as the end of a sentence about the column."""
    wanted = next((wanted for is_kind, wanted in WANTED.items() if is_kind(kind)), None)
    if wanted is None:
        raise InputError(f"of type {kind} cannot be compared")
    try:
        if isinstance(value, bool) != pa.types.is_boolean(kind) or value in (math.inf, -math.inf):
            raise TypeError
        if pa.types.is_integer(kind) and value != int(value):  # pyarrow would cut the fraction off
            raise TypeError
        if pa.types.is_decimal(kind):
            return pa.scalar(Decimal(str(value)), kind)
        if pa.types.is_date(kind):
            return pa.scalar(date.fromisoformat(str(value)), kind)
        if isinstance(kind, pa.TimestampType):
            return pa.scalar(_time(str(value), kind.tz is not None), pa.timestamp("us", kind.tz)).cast(kind)
        return pa.scalar(value, kind)
    except (ValueError, ArithmeticError, TypeError, pa.ArrowException):
        raise InputError(f"is of type {kind}: compare it with {wanted}") from None


def _time(value: str, zoned: bool) -> datetime:
    """The point in time that a text names; without a zone, UTC where the column has one."""
    time = datetime.fromisoformat(value)
    if TOO_FINE.search(value) or (time.tzinfo and not zoned):
        raise ValueError
    return time.replace(tzinfo=time.tzinfo or UTC) if zoned else time


WANTED = {
    pa.types.is_string: "a string in quotes",
    pa.types.is_large_string: "a string in quotes",
    pa.types.is_boolean: "true or false",
    pa.types.is_integer: "a whole number of this type",
    pa.types.is_floating: "a number of this type",
    pa.types.is_decimal: "a number of this type",
    pa.types.is_date: 'a day, such as "2020-01-31"',
    pa.types.is_timestamp: 'a time as fine, such as "2020-01-31T12:00", with a zone only where it has one',
}
"""What columns are compared with, by type."""


def _slip(text: str) -> tuple[int, str] | None:
    """The position of the first operator of another language, and what to write; None where there is none."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(" ".join(text.split("\n"))).readline):
            if token.type in (tokenize.OP, tokenize.ERRORTOKEN) and token.string in SLIPS:
                return token.start[1], f"write {SLIPS[token.string]} instead of {token.string}"
    except (tokenize.TokenError, SyntaxError):
        pass
    return None


def satisfying(corpus: PassageRows, text: str) -> np.ndarray:
    """Returns which passages of a corpus satisfy a condition, eight per byte [p / 8] uint8, as `np.packbits` packs them."""
    where = Where(text, corpus.schema)
    batches = corpus.batches(
        where.columns or ["id"]
    )  # `true` names no column, but batches without one have no rows
    return np.packbits(np.concatenate([where.mask(batch) for batch in batches]))


def column_names(schema: pa.Schema) -> Iterator[str]:
    """The columns that conditions may name: id, title, and the columns of the corpus that are not multiview's own."""
    hidden: Sequence[str] = [name for name in SCHEMA.names if name not in ("id", "title")]
    return (name for name in schema.names if name not in hidden)
