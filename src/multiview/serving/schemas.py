"""The bodies of requests and answers of the server, as OpenAPI shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StringConstraints

from multiview.serving.hits import Rank
from multiview.serving.limits import Limits

QUESTION = "When did the lighthouse stop burning oil?"
WHERE = "A condition on the corpus's columns (docs/serving.md)."
INDEX = "The index to search: a key, a run's id, `champion` or `challenger`. Default: the index that the server answers from."
MOST_CHARACTERS = 2000
"""Most characters of a condition. One made from OpenAI's filters is bounded by the body."""
IndexName = Annotated[str, StringConstraints(max_length=500)] | None


class View(BaseModel):
    """A view of a passage."""

    view: int = Field(description="Position among all views of the passage, from 1.")
    span: tuple[int, int] | None = Field(
        description="The part of the text that the view represents, in code points."
    )
    snippet: str | None = Field(description="The text of the span, or the title.")
    query: str | None = Field(
        None, description="The generated query that the passage was read with for this view."
    )


class ScoredView(View):
    """A view of a passage with its score for the question."""

    score: float


class Hit(View):
    """A passage that was found, with the view that suits the question best."""

    rank: int
    id: str
    title: str
    text: str
    score: float = Field(description="The view's score; else BM25's, a sum of reciprocal ranks, or a logit.")
    columns: dict[str, Any] = Field(description="Other columns of the corpus.")
    views: list[ScoredView] = Field([], description="Every indexed view, where `explain` was asked for.")
    ranks: dict[str, Rank] = Field(
        {}, description="Its ranks by dense, bm25 and hybrid, where `explain` was asked for."
    )


class Answer(BaseModel):
    """The passages that were found for a question, best first."""

    question: str
    exact: bool = Field(description="False where the index may have missed better passages.")
    hits: list[Hit]


class Answers(BaseModel):
    """The answers to all questions of a request, all from one index."""

    index: str = Field(description="The index's address.")
    champion: int | None = Field(description="The champion's number; null where an index was named.")
    answers: list[Answer]


class Passage(BaseModel):
    """A passage of the corpus, with what its views represent."""

    id: str
    title: str
    text: str
    columns: dict[str, Any]
    views: list[View]


class IndexChoice(BaseModel):
    """An index that requests may name."""

    name: str = Field(description="Its key, by which a request names it.")
    roles: list[str] = Field(description="`champion 3`, the newest first, and `challenger`.")
    architecture: str
    kind: str = Field(
        description="As `compact, hybrid, reranked`; empty for an exact index whose views alone rank."
    )
    passages: int | None
    views: int | None
    created: str


class IndexChoices(BaseModel):
    """The index that answers, and those that requests may name beside it."""

    index: str
    champion: int | None
    passages: int
    architecture: str
    ranking: str
    columns: list[str] = Field(description="Columns that conditions may name.")
    most_passages: int = Field(description="Passages per question at most.")
    indexes: list[IndexChoice]


class Health(BaseModel):
    """Whether the process works."""

    status: Literal["ok", "broken"]


class State(BaseModel):
    """Whether questions are answered, and from which index."""

    status: Literal["ready", "broken"]
    index: str
    champion: int | None
    passages: int
    ranking: str = Field(description="As `hybrid, reranked`; empty where views alone rank.")
    problem: str = Field(
        description="Why the last search failed, or why the store's champion does not answer; else empty."
    )
    freshness: str = Field(description="When the champion's corpus was read, and how refreshes ended.")
    notice: str = Field(description="That the corpus is older than `refresh.oldest`; empty where it is not.")


class Message(BaseModel):
    """Why a request was refused."""

    message: str


class Refusal(BaseModel):
    """The body of every error response."""

    error: Message


class Content(BaseModel):
    """A piece of a result, in OpenAI's shape."""

    type: Literal["text"] = "text"
    text: str


class Result(BaseModel):
    """A passage, in OpenAI's shape."""

    file_id: str = Field(description="The passage's id.")
    filename: str = Field(description="The passage's title, else its id.")
    score: float = Field(description="The score that ranks; not limited to 0 to 1.")
    attributes: dict[str, str | int | float | bool] | None = Field(
        description="Other columns of the corpus that have a value."
    )
    content: list[Content]


class ResultsPage(BaseModel):
    """The results of a search, in OpenAI's shape."""

    object: Literal["vector_store.search_results.page"] = "vector_store.search_results.page"
    search_query: list[str]
    data: list[Result]
    has_more: bool = False
    next_page: str | None = None


class RankingOptions(BaseModel, extra="forbid"):
    """How results are ranked, in OpenAI's shape; there is only one ranker."""

    ranker: str | None = None
    score_threshold: float | None = Field(
        None,
        allow_inf_nan=False,
        description="Results below this score are left out; 0, OpenAI's default, leaves out none.",
    )


class Filter(BaseModel, extra="forbid"):
    """A comparison (`key`, `value`) or several filters joined by `and` or `or`, in OpenAI's shape."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "and", "or"]
    key: str | None = None
    value: str | int | float | bool | list[str | int | float | bool] | None = None
    filters: list["Filter"] = []


def search_body(limits: Limits) -> type[BaseModel]:
    """Returns the model of `POST /search`'s body under these limits."""
    most, first = limits.max_k, {"questions": [QUESTION]}
    examples = [first, {**first, "k": 3, "explain": True, "where": 'id != "p7"'}]

    class SearchRequest(BaseModel, extra="forbid", json_schema_extra={"examples": examples}):
        """Questions, and which passages are wanted."""

        questions: _questions(limits) = Field(description="Answered each by itself.")  # pyright: ignore[reportInvalidTypeForm]
        k: int = Field(min(10, most), strict=True, ge=1, le=most, description="Passages per question.")
        explain: StrictBool = Field(False, description="Also give the score of every view.")
        where: str | None = Field(None, max_length=MOST_CHARACTERS, description=WHERE)
        index: IndexName = Field(None, description=INDEX)

    return SearchRequest


def openai_body(limits: Limits) -> type[BaseModel]:
    """Returns the model of the body of a search in OpenAI's shape under these limits."""
    most = min(50, limits.max_k)
    example = {"query": QUESTION, "max_num_results": 3, "rewrite_query": False}
    one_or_several = BeforeValidator(
        lambda query: [query] if isinstance(query, str) else query,
        json_schema_input_type=_question(limits) | _questions(limits),
    )

    class VectorStoreSearchRequest(BaseModel, extra="forbid", json_schema_extra={"examples": [example]}):
        """A search in OpenAI's shape."""

        query: Annotated[_questions(limits), one_or_several] = Field(  # pyright: ignore[reportInvalidTypeForm]
            description="One question, or several whose results are merged by score."
        )
        max_num_results: int = Field(min(10, most), strict=True, ge=1, le=most)
        filters: Filter | None = None
        ranking_options: RankingOptions | None = None
        rewrite_query: bool = Field(
            False, description="Taken and not done: questions are searched as they are."
        )

    return VectorStoreSearchRequest


def _question(limits: Limits) -> Any:
    return Annotated[str, StringConstraints(max_length=limits.max_characters, pattern=r"\S")]


def _questions(limits: Limits) -> Any:
    question = _question(limits)
    return Annotated[list[question], Field(min_length=1, max_length=limits.max_questions)]  # pyright: ignore[reportInvalidTypeForm]
