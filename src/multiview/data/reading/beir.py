"""BEIR's public collections by name, as in `beir:scifact/test`.

An archive is fetched once, checked against the MD5 that BEIR publishes, and unpacked into a cache folder, where it is
a folder of BEIR like any other. What is fetched or unpacked halfway is never read: the folder appears whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from zipfile import BadZipFile, ZipFile, is_zipfile

import requests
from filelock import FileLock
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from multiview import environment
from multiview.errors import InputError, nearest, without_secrets

SCHEME = "beir:"

PUBLIC = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
"""The folder of the public archives, `NAME.zip`."""

MD5 = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "climate-fever": "8b66f0a9126c521bae2bde127b4dc99d",
    "cqadupstack": "4e41456d7df8ee7760a7f866133bda78",
    "dbpedia-entity": "c2a39eb420a3164af735795df012ac2c",
    "fever": "5a818580227bfb4b35bb6fa46d9b6c03",
    "fiqa": "17918ed23cd04fb15047f73e6c3bd9d9",
    "hotpotqa": "f412724f78b0d91183a0e86805e16114",
    "msmarco": "444067daf65d982533ea17ebd59501e4",
    "nfcorpus": "a89dba18a62ef92f7d323ec890a0d38d",
    "nq": "d4d3d2e48787a744b6f6e691ff534307",
    "quora": "18fb154900ba42a600f84b839c173167",
    "scidocs": "38121350fc3a4d2f48850f6aff52e4a9",
    "scifact": "5f7d1de60b170fc8027bb7898e2efca1",
    "trec-covid": "ce62140cb23feb9becf6270d0d1fe6d1",
    "webis-touche2020": "46f650ba5a527fc69e0a6521c5a23563",
}
"""MD5 of each public archive, as the README of github.com/beir-cellar/beir lists them."""

RETRY = Retry(total=5, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False)
TIMEOUT = (10, 60)
"""Seconds to connect, and between two pieces of an answer."""
PIECE = 1 << 16
"""Bytes that are fetched at a time; at most so many are fetched again after a broken connection."""

WAY_OUT = (
    f"check the network, set {environment.BEIR} to the address of a mirror, or unpack the archive elsewhere and name "
    "its folder"
)


def is_beir(source: str) -> bool:
    """Whether a source is a collection of BEIR by name."""
    return source.startswith(SCHEME)


def located(source: str) -> str:
    """Returns the folder of `beir:NAME`, or the file of judgements of `beir:NAME/SPLIT`; any other source unchanged.

    An archive of several collections has the collection's name between them: `beir:cqadupstack/android/test`. The
    archive is fetched unless it is in the cache. Raises InputError for an unknown name or split, and for an archive
    that cannot be fetched or is not the published one.
    """
    if not is_beir(source):
        return source
    name, _, rest = source.removeprefix(SCHEME).strip("/").partition("/")
    if name not in MD5:
        raise InputError(f"{source}: not a public collection of BEIR{nearest(name, MD5, listed=MD5)}")
    folder = _fetched(source, name)
    places: dict[str, Path] = {}
    for corpus in sorted(folder.rglob("corpus.jsonl")):
        collection = corpus.parent
        prefix = "" if collection == folder else f"{collection.relative_to(folder).as_posix()}/"
        places[prefix.rstrip("/")] = collection
        places |= {f"{prefix}{split.stem}": split for split in sorted((collection / "qrels").glob("*.tsv"))}
    if rest not in places:
        known = [f"{SCHEME}{name}/{place}".rstrip("/") for place in places]
        raise InputError(f"{source}: no such split or collection{nearest(source, known, listed=known)}")
    return str(places[rest])


def _fetched(source: str, name: str) -> Path:
    """Returns the folder of an unpacked archive, which one process at a time fetches."""
    base = os.environ.get(environment.BEIR) or PUBLIC
    url = f"{base.rstrip('/')}/{name}.zip"
    cache = Path(os.environ.get(environment.CACHE_HOME) or Path.home() / ".cache") / "multiview" / "beir"
    folder = cache / f"{name}-{MD5[name][:8]}"
    try:
        if folder.is_dir():
            return folder
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{folder.name}.lock"):
            if not folder.is_dir():
                archive = cache / f"{folder.name}.zip"
                with _explained(source, url):
                    _download(url, archive)
                _check(source, url, archive, MD5[name])
                _unpack(source, archive, folder)
                archive.unlink()
    except OSError as error:
        raise InputError(
            f"{source}: cannot be kept in {cache} ({error.strerror or error}); name another folder by "
            f"{environment.CACHE_HOME}"
        ) from None
    return folder


@contextlib.contextmanager
def _explained(source: str, url: str) -> Iterator[None]:
    """Turns a failure to fetch into one line."""
    try:
        yield
    except requests.exceptions.ChunkedEncodingError:
        line = f"the connection broke while {url} was fetched; run it again: it continues where it ended"
    except requests.HTTPError as error:
        line = f"{url} answers {error.response.status_code} {error.response.reason}; {WAY_OUT}"
    except requests.RequestException as error:
        line = f"{url} cannot be reached ({type(error).__name__}); {WAY_OUT}"
    else:
        return
    raise InputError(f"{source}: {line}")


def _download(url: str, archive: Path) -> None:
    """Fetches the part of an archive that `archive` lacks; the whole where the server sends no parts."""
    present = archive.stat().st_size if archive.exists() else 0
    # Compressed on the way, the bytes would count differently.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={present}-"} if present else {})
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=RETRY))
        with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if present and answer.status_code == requests.codes.requested_range_not_satisfiable:
                return  # nothing is lacking
            answer.raise_for_status()
            print(f"fetching {without_secrets(url)}", file=sys.stderr)
            with archive.open("ab" if answer.status_code == requests.codes.partial_content else "wb") as file:
                for piece in answer.iter_content(PIECE):
                    file.write(piece)


def _check(source: str, url: str, archive: Path, expected: str) -> None:
    """Raises InputError for an archive that is not the published one, and deletes it."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found == expected:
        return
    what = f"has MD5 {found}, and BEIR publishes {expected}" if is_zipfile(archive) else "is no zip archive"
    archive.unlink()
    raise InputError(f"{source}: {url} {what}; it was deleted: run it again, or {WAY_OUT}")


def _unpack(source: str, archive: Path, folder: Path) -> None:
    """Unpacks the collections of an archive into `folder`, which appears when all is there. Other files are ignored."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    try:
        with ZipFile(archive) as members:
            places = _places(members.namelist())
            if not places:
                raise InputError(f"{source}: not in BEIR's form: no corpus.jsonl in its archive")
            for member, place in places.items():
                target = part / place
                target.parent.mkdir(parents=True, exist_ok=True)
                with members.open(member) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
    except (BadZipFile, zlib.error, NotImplementedError) as error:
        raise InputError(f"{source}: its archive cannot be unpacked ({error}); {WAY_OUT}") from None
    part.rename(folder)


def _places(members: list[str]) -> dict[str, PurePosixPath]:
    """Returns the paths, below the folder to unpack into, of the members that belong to a collection."""
    paths = {member: PurePosixPath(member) for member in members}
    inside = {m: path for m, path in paths.items() if not path.is_absolute() and ".." not in path.parts}
    roots = {path.parent for path in inside.values() if path.name == "corpus.jsonl"}
    if not roots:
        return {}
    top = posixpath.commonpath(map(str, roots))
    return {
        member: path.relative_to(top)
        for member, path in inside.items()
        if (path.parent in roots and path.name in ("corpus.jsonl", "queries.jsonl"))
        or (path.parent.name == "qrels" and path.parent.parent in roots and path.suffix == ".tsv")
    }
