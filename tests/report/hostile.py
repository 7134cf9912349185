"""What users may write, and no page may take for its own."""

from multiview.data.passages import Passage
from multiview.data.questions import Question
from tests.report.world import System, World

HOSTILE = (
    '<script>alert("a")</script>',
    "\"'><img src=x onerror=alert(1)>",
    "</script></style></title><h1>&amp;",
    "مرحبا \u202eright to left",
    "🐟 {{ 7 * 7 }} $x_1$ ${y}",
)


def hostile_world(folder) -> World:
    """Users' text that is none in every place where there can be some."""
    passages = [
        Passage(
            f"id {text}", f"title {text}", f"Before. text {text} After.", (8, 14 + len(text), 20 + len(text))
        )
        for text in HOSTILE
    ]
    questions = [
        Question(f"qid {text}", f"question {text}", (f"answer {text}",), None, (f"id {text}",))
        for text in HOSTILE
    ]
    found = {
        f"qid {text}": [f"id {text}", f"id {HOSTILE[0]}"][: 1 + (text != HOSTILE[0])] for text in HOSTILE
    }
    systems = {
        f"system {text}": System(found, views=3 * (text == HOSTILE[1]), rounds=1) for text in HOSTILE[:4]
    }
    return World(folder, systems, passages, questions)
