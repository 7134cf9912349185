"""What `corpus.source` and `questions.source` name: files, folders, patterns, fsspec URLs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable
from typing import Any

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from multiview.artifacts.credentials import credentials_told
from multiview.data.reading.files import base_name, is_web, plain_name
from multiview.data.reading.formats import FORMATS, SUFFIXES, detect, suffix_of
from multiview.data.reading.judged import CORPORA, Use, collection_files, names_beside, split_of
from multiview.errors import InputError

VARIABLE = re.compile(r"\$\{(\w+)\}")
CHUNK = 1 << 20
CHECKSUMS = ("md5Hash", "crc32c", "ETag", "etag", "generation", "Content-MD5", "Digest", "Last-Modified")
"""What file systems say of a file's content, the surest first."""


def expand_source(source: str, use: Use) -> list[str]:
    """The files that one source names for a use, sorted.

    `${NAME}` is the environment variable's value. A BEIR or MS MARCO folder is the files that it has
    for the use, and a BEIR file of judgements brings its queries. Any other folder is its files of a
    known format (text only where there is nothing else; stray files are passed over), a pattern
    (`*`, `?`, `[…]`) all files that match, hidden ones apart. Raises InputError for a variable that is
    not set, a protocol that cannot be read, and when there is no file.
    """
    named = VARIABLE.sub(lambda match: _variable(match, source), source)
    try:
        fs, path = url_to_fs(named)
    except (ValueError, ImportError) as error:  # a protocol unknown, or without its package
        raise InputError(f"{source}: {error}") from None
    try:
        with credentials_told(named):
            files = _files(fs, path, named, use)
    except OSError as error:
        raise InputError(f"{source}: cannot be looked at ({error})") from None
    if files is None:
        raise InputError(f"{source}: no such file or folder" + ("" if named == source else f" ({named})"))
    if not files:
        raise InputError(f"{source}: no files there ({', '.join(SUFFIXES)} are read, also compressed)")
    return files


def _files(fs: Any, path: str, named: str, use: Use) -> list[str] | None:
    """What a source without variables names; None where there is nothing of the name."""
    # A file's own name may hold a bracket.
    if not (is_web(named) and path.endswith("/")) and fs.isfile(path):
        beside = [name for name in names_beside(named, use) if fs.exists(name)][:1]
        return beside if beside and use == "corpus" else [*beside, named]
    if fs.isdir(path):
        files = _folder_files(fs, path, use)
    elif not is_web(named) and re.search(r"[*?\[]", path):
        files = sorted(
            str(name) for name in fs.glob(path) if fs.isfile(name) and base_name(str(name))[0] != "."
        )
    else:
        # Which raises what a file system has kept to itself: a bucket that it may not see is no folder to it.
        with contextlib.suppress(FileNotFoundError):
            fs.info(path)
        return None
    return files if isinstance(fs, LocalFileSystem) else [fs.unstrip_protocol(name) for name in files]


def expand_sources(sources: Iterable[str], use: Use) -> list[str]:
    """The files of several sources, in the sources' order, each once."""
    return list(dict.fromkeys(file for source in sources for file in expand_source(source, use)))


def question_groups(sources: Iterable[str], use: Use) -> list[list[str]]:
    """The files of several sources of questions, those together that share their judgements: a collection's
    are of its own queries, those of files that are named one by one of all such files."""
    groups: list[list[str]] = []
    single: list[str] = []
    for source in sources:
        files = expand_source(source, use)
        if len(files) > 1 and any(split_of(file) for file in files):
            groups.append(files)
        else:
            single += files
    return [*groups, *([list(dict.fromkeys(single))] if single else [])]


def is_collection(source: str) -> bool:
    """Whether a source brings passages and judged queries in files of their own."""
    try:
        return plain_name(expand_source(source, "corpus")[0]) in CORPORA and bool(_some_split(source))
    except InputError:
        return False


def _some_split(source: str) -> str:
    """The split of the judgements that a source brings, for whichever use it has some."""
    for use in ("train", "dev"):
        try:
            if split := "".join(split_of(file) for file in expand_source(source, use)):
                return split
        except InputError:
            continue
    return ""


def own_passages(sources: Iterable[str], form: str) -> list[str]:
    """The files with the passages of these sources of questions: SQuAD's and DPR's JSON bring their own,
    BEIR and MS MARCO have them beside the queries. Raises InputError for other files."""
    files = list(dict.fromkeys(file for source in sources for file in expand_source(source, "corpus")))
    for file in files:
        name = detect(file, form, "questions.format")
        if plain_name(file) not in CORPORA and not (name in FORMATS and FORMATS[name].repeats):
            raise InputError(
                f"corpus.source: name the passages; {base_name(file)} holds questions alone "
                "(SQuAD's and DPR's JSON bring their passages, and so do BEIR and MS MARCO folders)"
            )
    return files


def _folder_files(fs: Any, folder: str, use: Use) -> list[str]:
    """A collection's files for the use, or those of a known format."""
    names = [str(name) for name in fs.ls(folder, detail=False)]
    files = sorted(name for name in names if suffix_of(name) and fs.isfile(name))
    qrels = next((name for name in names if base_name(name) == "qrels" and fs.isdir(name)), None)
    judged = sorted(str(name) for name in fs.ls(qrels, detail=False)) if qrels else []
    if (found := collection_files([*files, *judged], use)) is not None:
        return found
    return [name for name in files if suffix_of(name) != "text"] or files


def _variable(match: re.Match[str], source: str) -> str:
    value = os.environ.get(match[1])
    if not value:
        raise InputError(
            f"{source}: the environment variable {match[1]} is not set; set it or write the path out"
        )
    return value


def fingerprints(files: Iterable[str]) -> list[dict[str, Any]]:
    """What the files hold, as key inputs: of each its name and sha256, read in pieces, or for a remote
    one what its file system says of its content, where it says anything."""
    found: list[dict[str, Any]] = []
    for file in files:
        fs, path = url_to_fs(file)
        name = base_name(file)
        info = {} if isinstance(fs, LocalFileSystem) else fs.info(path)
        key = next((key for key in CHECKSUMS if info.get(key)), None)
        if key:
            found.append({"name": name, "bytes": info.get("size"), key: str(info[key])})
            continue
        digest = hashlib.sha256()
        with fsspec.open(file, "rb") as stream:
            while chunk := stream.read(CHUNK):  # type: ignore[attr-defined]
                digest.update(chunk)
        found.append({"name": name, "sha256": digest.hexdigest()})
    return found
