"""BEIR's public collections by name, as in `beir:scifact/test`.

An archive is fetched once, checked against BEIR's MD5 and unpacked into a cache folder, which appears once complete.
"""

import hashlib
import os
import shutil
import sys
import zlib
from pathlib import Path
from zipfile import BadZipFile

from filelock import FileLock

from multiview import environment
from multiview.artifacts.local_store import rename_whole
from multiview.errors import InputError, nearest, without_secrets

SCHEME = "beir:"

PUBLIC_ARCHIVES = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
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

TIMEOUT = (10, 60)
"""Seconds to connect, and between two pieces of an answer."""
PIECE_BYTES = 1 << 16
"""Bytes fetched at a time; after a broken connection at most as many are fetched again."""

WAY_OUT = (
    f"check the network, set {environment.BEIR} to the address of a mirror, or unpack the archive elsewhere and name "
    "its folder"
)


def is_beir(source: str) -> bool:
    """Whether a source names one of BEIR's collections (`beir:…`)."""
    return source.startswith(SCHEME)


def located(source: str) -> str:
    """Returns the folder of `beir:NAME`, or the judgements of `beir:NAME/SPLIT`; any other source unchanged.

    An archive may hold several collections, as in `beir:cqadupstack/android/test`. Raises InputError for an unknown
    name or split, and for an archive that cannot be fetched or is not the published one.
    """
    if not is_beir(source):
        return source
    name, _, rest = source.removeprefix(SCHEME).strip("/").partition("/")
    if name not in MD5:
        raise InputError(f"{source}: not a public collection of BEIR{nearest(name, MD5, listed=MD5)}")
    collections = sorted(file.parent for file in _fetched(source, name).rglob("corpus.jsonl"))
    top = os.path.commonpath(collections)  # most archives hold a folder of their own name
    places: dict[str, Path] = {}
    for collection in collections:
        inner = "" if str(collection) == top else collection.relative_to(top).as_posix()
        places[inner] = collection
        for split in sorted((collection / "qrels").glob("*.tsv")):
            places[f"{inner}/{split.stem}".lstrip("/")] = split
    if rest not in places:
        known = [f"{SCHEME}{name}/{place}".rstrip("/") for place in places]
        raise InputError(f"{source}: no such split or collection{nearest(source, known, listed=known)}")
    return str(places[rest])


def _fetched(source: str, name: str) -> Path:
    """Returns the folder of the unpacked archive, which is fetched if need be, by one process at a time."""
    import requests

    base = os.environ.get(environment.BEIR) or PUBLIC_ARCHIVES
    url = f"{base.rstrip('/')}/{name}.zip"
    cache = Path(os.environ.get(environment.CACHE_HOME) or Path.home() / ".cache") / "multiview" / "beir"
    folder = cache / f"{name}-{MD5[name][:8]}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{folder.name}.lock"):
            if not folder.is_dir():
                archive = cache / f"{folder.name}.zip"
                _download(url, archive)
                _unpack(f"{source}: {url}", archive, MD5[name], folder)
    except requests.RequestException as error:
        said = f"{url} cannot be fetched ({type(error).__name__})"
        if (answer := error.response) is not None:
            said = f"{url} answers {answer.status_code} {answer.reason}"
        raise InputError(f"{source}: {said}; {WAY_OUT}; run again, it continues where it ended") from None
    except (shutil.ReadError, BadZipFile, zlib.error, NotImplementedError) as error:
        raise InputError(f"{source}: its archive cannot be unpacked ({error}); {WAY_OUT}") from None
    except OSError as error:
        raise InputError(
            f"{source}: cannot be kept in {cache} ({error.strerror or error}); name another folder by "
            f"{environment.CACHE_HOME}"
        ) from None
    return folder


def _download(url: str, archive: Path) -> None:
    """Fetches the part of an archive that `archive` still lacks, or all of it if the server does not send ranges."""
    import requests

    present = archive.stat().st_size if archive.exists() else 0
    # With compression in transit, the range would count other bytes.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={present}-"} if present else {})
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if present and answer.status_code == requests.codes.requested_range_not_satisfiable:
            return  # nothing is lacking
        answer.raise_for_status()
        print(f"fetching {without_secrets(url)}", file=sys.stderr)
        with archive.open("ab" if answer.status_code == requests.codes.partial_content else "wb") as file:
            for piece in answer.iter_content(PIECE_BYTES):
                file.write(piece)


def _unpack(named: str, archive: Path, expected: str, folder: Path) -> None:
    """Unpacks an archive into `folder`, which appears once complete. Raises InputError if it is not BEIR's own."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != expected:
        archive.unlink()
        digests = f"has MD5 {found}, and BEIR publishes {expected}"
        raise InputError(f"{named} {digests}; it was deleted: run again, or {WAY_OUT}")
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    shutil.unpack_archive(archive, part, "zip")
    if not any(part.rglob("corpus.jsonl")):
        raise InputError(f"{named} is not in BEIR's form: no corpus.jsonl in its archive")
    rename_whole(part, folder)
    archive.unlink()
