"""A small SQuAD corpus of invented facts, written as SQuAD JSON."""

import json
import random
from pathlib import Path

THINGS = [
    "river",
    "mountain",
    "island",
    "castle",
    "church",
    "school",
    "college",
    "army",
    "team",
    "game",
    "league",
    "cup",
    "film",
    "music",
    "album",
    "band",
    "book",
    "art",
    "theory",
    "law",
    "court",
    "language",
    "water",
    "air",
    "light",
    "oxygen",
    "carbon",
    "iron",
    "silver",
    "metal",
    "plant",
    "animal",
    "cell",
    "coal",
    "steam",
    "engine",
    "train",
    "road",
    "bridge",
    "house",
    "garden",
    "tower",
    "wall",
    "street",
    "market",
    "ship",
    "price",
    "bank",
    "party",
    "vote",
    "family",
]
NAMES = ["Tesla", "Newton", "Einstein", "Chopin", "Luther", "Victoria", "Beyonce"]
PLACES = ["Paris", "London", "Rome", "Berlin", "Warsaw", "Normandy", "California", "Texas"]
FACTS = [
    ("{name} was born in {place} in the year {year}.", "Where was {name} born?", "{place}"),
    ("In {year} {name} built a great {thing} there.", "What did {name} build?", "great {thing}"),
    ("The {thing} of {place} is the oldest in the world.", "What is the oldest of {place}?", "{thing}"),
    (
        "{name} wrote about {thing} and {other} after the war.",
        "What did {name} write about?",
        "{thing} and {other}",
    ),
    ("Many people in {place} believed that {other} was gold.", "What was believed to be gold?", "{other}"),
]


def squad_corpus(folder: Path, passages: int = 24, seed: int = 0) -> tuple[Path, Path]:
    """Write `train.json` and `dev.json` of different invented passages; their paths."""
    draw = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "train.json", folder / "dev.json"
    for path in paths:
        articles = [_article(draw, f"{path.stem}{number}") for number in range(passages)]
        path.write_text(json.dumps({"version": "1.1", "data": articles}))
    return paths


def _article(draw: random.Random, ident: str) -> dict:
    name, place = draw.choice(NAMES), draw.choice(PLACES)
    text, questions = "", []
    for number in range(draw.randint(2, 7)):
        sentence, question, answer = draw.choice(FACTS)
        words = {
            "name": name,
            "place": place,
            "year": str(draw.randint(1000, 2000)),
            "thing": draw.choice(THINGS),
            "other": draw.choice(THINGS),
        }
        sentence, answer = sentence.format(**words), answer.format(**words)
        start = len(text) + sentence.index(answer)
        text += sentence + " "
        if number < 2:
            questions.append(
                {
                    "id": f"{ident}-{number}",
                    "question": question.format(**words),
                    "answers": [{"text": answer, "answer_start": start}],
                }
            )
    return {"title": f"{name}_of_{place}", "paragraphs": [{"context": text.strip(), "qas": questions}]}
