"""Conditions on the columns of a corpus, as text: `where` of a search.

    day >= "2020-01-05" and (source in ("news", "wiki") or not archived) and url is not null

A condition compares a column with a value: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in (…)`, `not in (…)`, `is null`, `is not
null`; a value is in a column of lists by `"value" in column`. A column of booleans is a condition by itself. Conditions
are joined by `and`, `or`, `not` and parentheses. Values are strings, numbers, `true`, `false` and `null`; days and
times are strings in ISO 8601. `columns["a name"]` is a column whose name is no identifier.

A missing value (null, NaN) equals null alone and is neither smaller nor larger than any value, so `url != "x"` is true
where `url` is missing. Every condition is true or false of every passage; there is no third value.

Python's parser reads the text into a syntax tree; nothing of it is executed.
"""

# pyarrow.compute defines its functions when it is imported, so pyright does not see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import ast
import io
import operator
import tokenize
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from multiview.data.passages import SCHEMA, PassageRows
from multiview.errors import InputError, nearest
from multiview.serving.comparisons import Comparator, Mask, Value, comparator, missing, truth, within_lists

LONGEST = 2000
"""Characters of a condition at most."""

DEEPEST = 50
"""Conditions within conditions at most."""

CONSTANTS = {"null": None, "true": True, "false": False}
Condition: TypeAlias = Callable[[pa.RecordBatch], Mask]

OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "==",
    ast.IsNot: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
SLIPS = {"=": "==", ":=": "==", "&": "and", "|": "or", "!": "not"}
"""Operators of other languages, and ours."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with its sides exchanged."""


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
        self._text, self._schema = text, schema
        self._fields: dict[str, None] = {}
        self._condition = self._condition_of(self._parsed(), 0)

    @property
    def columns(self) -> list[str]:
        """The columns that the condition reads, in the order of their first use."""
        return list(self._fields)

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Returns which rows of a batch, which has `columns` at least, satisfy the condition [rows] bool."""
        return self._condition(batch)

    def _parsed(self) -> ast.expr:
        if len(self._text) > LONGEST:
            raise ConditionError(f"where: {len(self._text)} characters; at most {LONGEST} are read")
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

    @property
    def _flat(self) -> str:
        return self._text.lstrip()

    def _condition_of(self, node: ast.expr, depth: int) -> Condition:
        if depth > DEEPEST:
            raise self._error(node, f"more than {DEEPEST} conditions within conditions")
        match node:
            case ast.BoolOp(values=values):
                join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
                parts = [self._condition_of(value, depth + 1) for value in values]
                return lambda batch: reduce(join, (part(batch) for part in parts))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self._condition_of(operand, depth + 1)
                return lambda batch: ~inner(batch)
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                # `1 < x < 3` is `1 < x and x < 3`.
                pairs = list(zip(sides, ops, sides[1:], strict=False))
                parts = [self._comparison(*pair) for pair in pairs]
                return lambda batch: reduce(operator.and_, (part(batch) for part in parts))
            case ast.Constant(value=bool(value)):
                return lambda batch: np.full(batch.num_rows, value)
            case ast.Name(id=name) if isinstance(CONSTANTS.get(name), bool):
                return lambda batch: np.full(batch.num_rows, CONSTANTS[name])
        if (name := self._column(node)) is not None:
            if not pa.types.is_boolean(self._schema.field(name).type):
                raise self._error(node, f"column {name} is no condition; compare it with a value")
            return lambda batch: truth(batch.column(name))
        raise self._error(node, 'a condition is expected here, such as year >= 2000 or url != "…"')

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Condition:
        symbol = OPERATORS[type(op)]
        if symbol in ("in", "not in"):
            found = self._within(left, right)
            return found if symbol == "in" else lambda batch: ~found(batch)
        name, value_node = self._column(left), right
        if name is None:
            name, value_node = self._column(right), left
            symbol = MIRRORED.get(symbol, symbol)
        if name is None:
            raise self._error(left, "a comparison is of a column with a value")
        if self._column(value_node) is not None:
            raise self._error(value_node, "two columns cannot be compared; give a value")
        value = self._value(value_node)
        if value is None:
            if symbol not in ("==", "!="):
                raise self._error(
                    value_node, "null is neither smaller nor larger than anything; use == or !="
                )
            return lambda batch: missing(batch.column(name)) == (symbol == "==")
        if isinstance(op, ast.Is | ast.IsNot):
            raise self._error(value_node, "only null follows is; use ==")
        if symbol == "!=":
            equal = self._compared(value_node, name, "==", value)
            return lambda batch: ~equal(batch.column(name))
        compared = self._compared(value_node, name, symbol, value)
        return lambda batch: compared(batch.column(name))

    def _within(self, left: ast.expr, right: ast.expr) -> Condition:
        """`column in (values)`, or `value in column` of lists."""
        if (name := self._column(right)) is not None:
            kind = self._schema.field(name).type
            if not isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
                raise self._error(right, f"column {name} holds no lists; write {name} in (…)")
            value = self._value(left)
            if value is None:
                raise self._error(left, "a value other than null is expected")
            equal = self._compared(left, name, "==", value, kind.value_type)
            return lambda batch: within_lists(batch.column(name), equal)
        name = self._column(left)
        if name is None:
            raise self._error(left, "a column is expected before in")
        # Python reads a single value in parentheses as the value.
        nodes = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else [right]
        values = [(node, self._value(node)) for node in nodes]
        parts: list[Comparator] = [
            missing if value is None else self._compared(node, name, "==", value) for node, value in values
        ]

        def any_of(batch: pa.RecordBatch) -> Mask:
            column = batch.column(name)
            return reduce(operator.or_, (part(column) for part in parts), np.zeros(len(column), bool))

        return any_of

    def _compared(
        self, node: ast.expr, name: str, symbol: str, value: Value, kind: pa.DataType | None = None
    ) -> Comparator:
        try:
            return comparator(kind or self._schema.field(name).type, symbol, value)
        except InputError as error:
            raise self._error(node, f"column {name} {error}") from None

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
        self._fields[name] = None
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
