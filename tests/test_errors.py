"""What lines leave out of URLs and of libraries' words."""

import doctest

import pytest
from h11 import LocalProtocolError, Request
from requests.utils import check_header_validity

from multiview import errors
from multiview.errors import InputError, Problems, one_line, without_secrets


def test_the_examples_of_the_docstrings():
    assert doctest.testmod(errors).failed == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fetching https://a.org/c.jsonl?X-Sig=s&key=s: 403", "fetching https://a.org/c.jsonl?…: 403"),
        ("401, url='http://a.org/c?token=s:s.s,s')", "401, url='http://a.org/c?…')"),
        ("(https://a.org/c?sig=s); try again", "(https://a.org/c?…); try again"),
        ("https://ann:s@a.org/?a=s", "https://…@a.org/?…"),
        ("two: http://a.org/?a=s and http://b.org/?b=s.", "two: http://a.org/?… and http://b.org/?…."),
        ("s3://bucket/part-?.jsonl: no such file", "s3://bucket/part-?.jsonl: no such file"),
        ("is it https://a.org/c.jsonl? yes", "is it https://a.org/c.jsonl? yes"),
    ],
)
def test_a_query_of_a_web_address_is_left_out(text, expected):
    assert without_secrets(text) == expected
    assert str(InputError(text)) == expected


@pytest.mark.parametrize(
    "part", ["http://", "http://a?", "a.", "a+", "@", "x://@", ")", "http://a?)'", "a:b@"]
)
@pytest.mark.parametrize("start", ["", "http://a?", "x://"])
def test_no_text_of_a_stranger_takes_minutes_to_clean(start, part):
    """A quadratic search would, of a text of a megabyte."""
    without_secrets(start + part * (1_000_000 // len(part)) + "!")


@pytest.mark.parametrize("length", [*range(715, 750, 5), *range(14_960, 15_000, 5), 3_000_000])
@pytest.mark.parametrize("secret", ["https://ann:planted@a.org/ ", "https://a.org/?planted=planted "])
def test_a_cut_line_keeps_no_half_of_a_secret(length, secret):
    """Wherever the cuts of a long line fall."""
    for shift in range(5):
        line = "x" * length + " " + secret + "y" * (length + shift)
        assert "anted" not in str(InputError(line)), shift


def h11_refuses(value: str) -> Exception:
    with pytest.raises(LocalProtocolError) as refused:
        Request(method="GET", target="/", headers=[("Host", "a.org"), ("api-key", value)])
    return refused.value


def requests_refuses(value: str) -> Exception:
    with pytest.raises(ValueError, match="header") as refused:
        check_header_validity(("Authorization", value))
    return refused.value


def http_client_refuses(value: str) -> Exception:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", 9)
    connection.sock = object()  # type: ignore[assignment]
    connection.putrequest("GET", "/")
    with pytest.raises(ValueError, match="header") as refused:
        connection.putheader("Authorization", value)
    return refused.value


@pytest.mark.parametrize(
    ("refuses", "end"),
    [(h11_refuses, "\n"), (requests_refuses, "\r\nX: y"), (http_client_refuses, "\n")],
)
@pytest.mark.parametrize("beginning", ["", "an'", "an'\""])
def test_libraries_repeat_a_header_that_they_refuse_and_our_lines_do_not(refuses, end, beginning):
    """A secret with a line end, as from `echo SECRET | base64`, is the usual one."""
    error = refuses(f"{beginning}a-secret{end}")
    assert "a-secret" in str(error)
    for line in (str(InputError(str(error))), one_line(error)):
        assert "a-secret" not in line and "does a password, token or key end with a line end?" in line


def test_the_first_problem_of_a_kind_is_kept_without_passwords():
    problems = Problems()
    problems.add(
        "empty files", "https://ann:planted@data.example.org/a.jsonl?token=planted: no questions in it"
    )
    problems.add("empty files", "b.jsonl: no questions in it")
    assert problems.counts == {"empty files": 2}
    assert problems.first == {"empty files": "https://…@data.example.org/a.jsonl?…: no questions in it"}
