"""Conditions on the columns of a corpus, as text: `where` of a search.

    day >= "2020-01-05" and (source in ("news", "wiki") or not archived) and url is not null

docs/serving.md has the language. Every condition is true or false of every passage; there is no third value for what is
missing. Python's parser reads the text into a syntax tree; nothing of it is executed.
"""

import ast
import io
import operator
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from functools import reduce
from math import inf, isfinite
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.data.passages import SCHEMA, PassageRows
from multiview.data.reading.values import has_half
from multiview.errors import InputError, nearest

LISTS = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
CONSTANTS = {"null": None, "true": True, "false": False}
Mask: TypeAlias = np.ndarray
"""Whether each row satisfies something [rows] bool."""
Value: TypeAlias = str | bool | int | float | Decimal

SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is", ast.In: "in",
}  # fmt: skip
NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In,
}  # fmt: skip
"""The operator that each of these negates."""
FUNCTIONS = {"==": "equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with its sides swapped."""


class ConditionError(InputError):
    """A text is no condition on the columns of a corpus; the message names the position."""

    def __init__(self, why: str, place: str = "where") -> None:
        super().__init__(f"{place}: {why}")
        self.why = why
        """The message without the position."""


class Where:
    """A condition, parsed from a text for a corpus with certain columns.

    >>> table = pa.record_batch({"id": ["a", "b", "c"], "year": [1999, 2004, None]})
    >>> where = Where("year < 2000 or year is null", table.schema)
    >>> where.columns, where.mask(table).tolist()
    (['year'], [True, False, True])
    """

    def __init__(self, text: str, schema: pa.Schema) -> None:
        """Raises ConditionError for a text that is no condition on `schema`."""
        self._text, self._schema = text.lstrip(), schema  # Python takes no indented expression
        self._indent = len(text) - len(self._text)
        self.columns: list[str] = []
        """The columns that the condition reads, in the order of their first use."""
        try:
            self._tree = self._parsed()
            # An empty batch is enough to find every error, even nesting that is too deep to evaluate.
            self.mask(pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema.names))
        except RecursionError:
            raise ConditionError("too many conditions within conditions") from None

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Returns which rows of a batch that has at least `columns` satisfy the condition [rows] bool."""
        return self._mask(self._tree, batch)

    def _parsed(self) -> ast.expr:
        # With line ends as blanks, a condition of several lines needs no parentheses.
        flat = self._flat = self._text.translate(str.maketrans("\r\n", "  "))
        try:
            with warnings.catch_warnings(action="ignore"):  # about unknown escapes
                tree = ast.parse(flat, mode="eval").body
        except SyntaxError as error:
            if not error.offset:
                raise self._error_at(len(flat), "it ends where more is expected") from None
            why = f"{error.msg}; compare by ==, and join by and, or, not"
            raise self._error_at(error.offset - 1, why) from None
        except (ValueError, MemoryError):
            raise ConditionError("this text cannot be read as a condition") from None
        before = None
        for token in tokenize.generate_tokens(io.StringIO(flat).readline):
            start, stop = token.start[1], token.end[1]
            if token.type == before == tokenize.STRING:
                raise self._error_at(
                    start, "two strings follow each other, which would be joined; a comma is missing"
                )
            before = token.type
            if token.type == tokenize.COMMENT:
                raise self._error_at(start, "a comment would hide what follows; leave it out")
            if token.type == tokenize.STRING and token.string != self._text[start:stop]:
                raise self._error_at(start, "a line ends within the quotes; write \\n for a line end")
        return tree

    def _mask(self, node: ast.expr, batch: pa.RecordBatch) -> Mask:
        match node:
            case ast.BoolOp(op=op, values=values):
                join = operator.and_ if isinstance(op, ast.And) else operator.or_
                return reduce(join, [self._mask(value, batch) for value in values])
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self._mask(operand, batch)
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
        kind = NEGATED.get(type(op), type(op))
        symbol, negated = SYMBOLS[kind], kind is not type(op)
        name, values = self._column(left), [right]
        if symbol == "in":
            if (lists := self._column(right)) is not None:
                return self._listed(batch.column(lists), lists, left, right) != negated
            # To Python, a single value in parentheses is just the value.
            values = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
            symbol = "=="
        elif name is None:
            name, values, symbol = self._column(right), [left], MIRRORED.get(symbol, symbol)
        if name is None:
            raise self._error(left, "a comparison is of a column with a value")
        found = [self._with_value(node, name, batch.column(name), symbol) for node in values]
        return reduce(operator.or_, found, np.zeros(batch.num_rows, bool)) != negated

    def _listed(self, column: Any, name: str, left: ast.expr, right: ast.expr) -> Mask:
        """`value in column` of lists."""
        if not isinstance(column.type, LISTS):
            raise self._error(right, f"column {name} holds no lists; write {name} in (…)")
        equal = self._with_value(left, name, pc.list_flatten(column), "==")
        found = np.zeros(len(column), bool)
        found[pc.list_parent_indices(column).to_numpy()[equal]] = True
        return found

    def _with_value(self, node: ast.expr, name: str, column: Any, symbol: str) -> Mask:
        """Which values of a column stand in the relation `symbol` to the value of `node`."""
        if isinstance(column.type, pa.DictionaryType):
            column = column.dictionary_decode()
        value = self._value(node)
        if pa.types.is_floating(column.type):
            value, column = _nearest(value, column.type), column.cast(pa.float64())
        if value is None:
            if symbol not in ("==", "is"):
                raise self._error(node, "null is neither smaller nor larger than anything; use == or !=")
            return _true(column.is_null(nan_is_null=pa.types.is_floating(column.type)))
        if symbol == "is":
            raise self._error(node, "only null follows is; use ==")
        if pa.types.is_null(column.type):
            return np.zeros(len(column), bool)
        try:
            scalar = _scalar(column.type, value)
        except InputError as error:
            raise self._error(node, f"column {name} {error}") from None
        return _true(pc.call_function(FUNCTIONS[symbol], [column, scalar]))

    def _column(self, node: ast.expr) -> str | None:
        """The column that a node names; None if it is no name. Raises ConditionError for an unknown column."""
        names = list(column_names(self._schema))
        match node:
            case ast.Subscript(value=ast.Name(id="columns"), slice=ast.Constant(value=str(name))):
                pass
            case ast.Name(id=name) if name not in CONSTANTS:
                written = self._flat.encode()[node.col_offset : node.end_col_offset].decode()
                if written in names:  # Python's parser takes names in NFKC
                    name = written
                elif name not in names:
                    same = (each for each in names if unicodedata.normalize("NFKC", each) == name)
                    name = next(same, name)
            case _:
                return None
        if name not in names:
            raise self._error(node, f"there is no column {name!r}{nearest(name, names)}")
        if name not in self.columns:
            self.columns.append(name)
        return name

    def _value(self, node: ast.expr) -> Value | None:
        """The value of a literal. Raises ConditionError for any other node."""
        match node:
            case ast.Name(id=name) if name in CONSTANTS:
                return CONSTANTS[name]
            case ast.Constant(value=None):
                return None
            case ast.Constant(value=float() as value) if value and isfinite(value):
                return Decimal(ast.get_source_segment(self._flat, node) or value)  # all of its digits
            case ast.Constant(value=str() | bool() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number) as operand):
                value = self._value(operand)
                return value.copy_negate() if isinstance(value, Decimal) else -number
        raise self._error(node, "a string, a number, true, false or null is expected here")

    def _error(self, node: ast.expr, why: str) -> ConditionError:
        # Python's offset counts bytes of UTF-8.
        return self._error_at(len(self._text.encode()[: node.col_offset].decode()), why)

    def _error_at(self, offset: int, why: str) -> ConditionError:
        return ConditionError(why, f"where, character {self._indent + offset + 1}")


def _true(column: pa.Array) -> Mask:
    return column.fill_null(False).to_numpy(zero_copy_only=False)


def _nearest(value: Value | None, kind: pa.DataType) -> Value | None:
    """The float, perhaps of 32 or 16 bits, that a column holds for a fraction, or for a whole number that floats hold
    only roughly; any other value unchanged."""
    if isinstance(value, int) and abs(value) > 1 << 53:
        value = Decimal(value)
    nearest = pa.scalar(float(value)).cast(kind).as_py() if isinstance(value, Decimal) else inf
    return nearest if isfinite(nearest) else value


def _scalar(kind: pa.DataType, value: Value) -> pa.Scalar:
    """The value converted exactly to a column's type. Raises InputError with the end of a sentence about the column."""
    try:
        if isinstance(value, bool) != pa.types.is_boolean(kind):
            raise TypeError
        if pa.types.is_decimal(kind):
            return pa.scalar(Decimal(str(value)), kind)
        if pa.types.is_time(kind) and isinstance(value, str):
            return pa.scalar(f"1970-01-01T{value}").cast(pa.timestamp("us")).cast(kind)
        if pa.types.is_date(kind):
            return pa.scalar(str(value)).cast(kind)
        if isinstance(kind, pa.TimestampType):  # a time without a zone is UTC if the column has one
            zone = kind.tz if datetime.fromisoformat(str(value)).tzinfo else None
            return pa.scalar(str(value)).cast(pa.timestamp("us", zone)).cast(kind)
        if isinstance(value, Decimal):
            if pa.types.is_integer(kind) and value != value.to_integral_value():
                raise TypeError
            value = int(value) if pa.types.is_integer(kind) else float(value)
        scalar = pa.scalar(value, kind)
        if scalar.as_py() != value:  # such as a fraction, which pyarrow truncates
            raise TypeError
        return scalar
    except (ValueError, ArithmeticError, TypeError, pa.ArrowException):
        if isinstance(value, str) and has_half(value):
            raise InputError(
                "holds no half characters: write the character itself, not as two escapes"
            ) from None
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            raise InputError(
                'holds text, which is compared letter by letter ("10" < "9"): compare it with a text in quotes, or '
                "store numbers as numbers (Parquet or JSON)"
            ) from None
        if isinstance(kind, LISTS):
            raise InputError(
                'holds lists: write the value before it, as in "art" in tags or 1 in years; only `where` reads lists'
            ) from None
        raise InputError(
            f"is of type {kind}: compare it with a value that it can hold, days and times as "
            '"2020-01-31" or "2020-01-31T12:00"'
        ) from None


def satisfying(corpus: PassageRows, text: str) -> np.ndarray:
    """Returns which passages of a corpus satisfy a condition, packed by `np.packbits`, eight per byte [p / 8] uint8."""
    where = Where(text, corpus.schema)
    # `true` names no column, but batches without one have no rows.
    batches = corpus.batches(where.columns or ["id"])
    return np.packbits(np.concatenate([np.zeros(0, bool), *map(where.mask, batches)]))


def column_names(schema: pa.Schema) -> Iterator[str]:
    """The columns that conditions may name: id, title, and the columns of the corpus that are not multiview's own."""
    return (name for name in schema.names if name in ("id", "title") or name not in SCHEMA.names)
