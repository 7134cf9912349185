"""A generated corpus for the demo and for tests: invented people, towns and works, as SQuAD JSON.

Each sentence states one fact. Names are shared on purpose, questions use other words than the passage, and half of them
avoid its name: word overlap finds many passages, but not all.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from random import Random

from multiview.config import JsonObject
from multiview.config.documents import read_document

PEOPLE, PLACES, WORKS = 100, 90, 120
DEV_SHARE = 0.25
QUESTIONS = (3, 5)
"""Fewest and most questions per passage."""
SENTENCES = ((4, 8), (9, 11))
"""Fewest and most sentences per passage: in five passages of six, and in the sixth."""
NAMESAKES = 12
"""Number of people with the name of another person and a different profession."""


@dataclass
class Entity:
    """A person, place or work with a passage, and the facts about it."""

    kind: str
    name: str
    facts: dict[str, str] = field(default_factory=dict)


def demo_files(seed: int = 0) -> dict[str, bytes]:
    """Returns `train.json` and `dev.json`, SQuAD's JSON of the questions with their passages; an equal seed gives equal bytes."""
    random = Random(seed)
    phrases = read_document(files("multiview.data.demo") / "phrases.yaml", "phrases").content
    entities = _entities(random, phrases)
    articles = [_article(random, phrases, entity, f"demo-{n}") for n, entity in enumerate(entities)]
    random.shuffle(articles)
    dev = round(DEV_SHARE * len(articles))
    return {
        name: json.dumps({"version": "demo", "data": data}, indent=1, ensure_ascii=False).encode()
        for name, data in {"train.json": articles[dev:], "dev.json": articles[:dev]}.items()
    }


def _entities(random: Random, phrases: JsonObject) -> list[Entity]:
    """Returns all entities, with facts that refer to one another."""
    pools, parts = phrases["pools"], phrases["syllables"]

    def name(first: str, last: str) -> str:
        return random.choice(parts["first"]) + random.choice(parts["middle"]) + random.choice(parts[last])

    def title() -> str:
        first = random.choice(towns if random.random() < 0.3 else pools["quality"])
        return f"The {first} {random.choice(pools['thing'])}"

    towns = _different(PLACES, lambda: name("first", "place"))
    # Only a few families, so that most people share their name with others.
    families = _different(PEOPLE // 4, lambda: name("first", "family"))
    full = _different(PEOPLE - NAMESAKES, lambda: f"{name('first', 'given')} {random.choice(families)}")
    things = _different(WORKS, title)
    people = [Entity("person", n) for n in [*full, *full[:NAMESAKES]]]
    places = [Entity("place", n) for n in towns]
    works = [Entity("work", n) for n in things]
    for index, person in enumerate(people):
        professions = [
            p for p in pools["profession"] if p != people[index - len(full)].facts.get("profession")
        ]
        feminine = random.random() < 0.5
        person.facts = {
            "profession": random.choice(professions),
            "they": "she" if feminine else "he",
            "them": "her" if feminine else "him",
            "their": "her" if feminine else "his",
            "short": person.name.split()[-1],
            "birth": str(random.randrange(1700, 1880)),
        }
    for index, work in enumerate(works):
        maker, home = people[index % len(people)], places[index % len(places)]
        kind = random.choice(pools["kind"])
        work.facts = {
            "kind": kind,
            "maker": maker.name,
            "year": str(int(maker.facts["birth"]) + random.randrange(25, 45)),
            "place": home.name,
            "weight": f"{random.randrange(3, 90)} tons",
        }
        for owner in (maker, home):
            owner.facts.setdefault("work", work.name)
            if owner.facts["work"] == work.name:
                owner.facts["kind"] = kind
    for entity in (*people, *places, *works):
        _fill(random, pools, entity, people, towns)
    return [*people, *places, *works]


def _fill(random: Random, pools: JsonObject, entity: Entity, people: list[Entity], towns: list[str]) -> None:
    """Adds the remaining facts of an entity: things from the pools, people and towns from other entities."""
    facts, others = entity.facts, [person for person in people if person.name != entity.name]
    for name in ("mentor", "rival", "founder", "patron", "critic"):
        facts.setdefault(name, random.choice(others).name)
    for name in ("home", "exile", "neighbour", "copy"):
        facts.setdefault(name, random.choice([t for t in towns if t not in (entity.name, *facts.values())]))
    for name, pool in pools.items():
        facts.setdefault(name, random.choice(pool))
    native = random.choice(others)
    facts["native"], facts["native_profession"] = native.name, native.facts["profession"]
    facts["river"] = random.choice([t for t in towns if t != entity.name]).removesuffix("burg") + " River"
    facts.setdefault("year", str(random.randrange(1300, 1700)))
    facts.setdefault("death", str(int(facts.get("birth", "1800")) + random.randrange(48, 88)))


def _different(count: int, make: Callable[[], str]) -> list[str]:
    """Returns `count` different names, in the order in which `make` returns them."""
    names: dict[str, None] = {}
    while len(names) < count:
        names[make()] = None
    return list(names)


def _article(random: Random, phrases: JsonObject, entity: Entity, prefix: str) -> JsonObject:
    """Returns a SQuAD article of one paragraph with its questions."""
    templates = phrases[entity.kind]
    first, *rest = templates["facts"]
    low, high = SENTENCES[1] if random.random() < 1 / 6 else SENTENCES[0]
    chosen = [first, *random.sample(rest, random.randint(low, high) - 1)]
    words = entity.facts | {"name": entity.name}
    words |= {f"a_{name}": f"{'an' if text[0] in 'aeiou' else 'a'} {text}" for name, text in words.items()}
    words |= {name.capitalize(): text[:1].upper() + text[1:] for name, text in words.items()}
    context, starts = "", {}
    for fact in chosen:
        sentence = random.choice(fact["sentences"])
        before = re.split(rf"\{{{fact['answer']}\}}", sentence, flags=re.IGNORECASE)[0]
        starts[fact["answer"]] = len(context) + len(before.format(**words))
        context += sentence.format(**words) + " "
    context = context.rstrip()
    clue_fact = "maker" if entity.kind == "work" else "work"
    clue = templates["clue"].format(**words) if clue_fact in starts else None
    qas = []
    for fact in random.sample(chosen, min(random.randint(*QUESTIONS), len(chosen))):
        by_name, by_clue = fact["questions"]
        question = by_clue if clue and random.random() < 0.5 else by_name
        full_name = f"the {words['profession']} {entity.name}" if entity.kind == "person" else entity.name
        start = starts[fact["answer"]]
        answer = context[start : start + len(words[fact["answer"]])]
        qas.append(
            {
                "id": f"{prefix}-{fact['answer']}",
                "question": question.format(**(words | {"name": full_name, "clue": clue})),
                "answers": [{"text": answer, "answer_start": start}],
            }
        )
    return {"title": entity.name, "paragraphs": [{"context": context, "qas": qas}]}
