"""File names of an evaluation, of its analyses, and of a comparison."""

METRICS_FILE = "metrics.json"
"""Metrics of an evaluation or of its analyses by name; those of a comparison by system and name."""

# Of an evaluation.
RUN_FILE = "run.trec"
QRELS_FILE = "qrels.trec"
QUESTIONS_FILE = "questions.parquet"
"""The metrics of each question."""

# Of a comparison.
TABLE_FILE = "table.md"
SIGNIFICANCE_FILE = "significance.json"
"""How the systems were tested against the baseline; the marks of the table come from it."""
SEEDS_FILE = "seeds.json"
SEEDS_TABLE_FILE = "seeds.md"
ANALYSES_FILE = "analyses.json"
ANALYSES_TABLE_FILE = "analyses.md"
PAPER_FILE = "paper.json"
"""Row to a `PaperFigures`, of a study whose rows a paper has; in per cent, as printed."""
SETTINGS_FILE = "settings.json"
WON_FILE = "won.json"

# In the folder of an evaluation's analyses.
ANALYSES_PAGE_FILE = "tables.md"


def analysis_table_file(table: str) -> str:
    """Returns the file name of a table of the analyses."""
    return f"{table}.parquet"
