"""Resolves `corpus.source` and `questions.source` to files: paths, folders, patterns, fsspec URLs, `beir:` names."""

import contextlib
import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import fsspec
from fsspec import AbstractFileSystem
from fsspec.implementations.local import LocalFileSystem

from multiview.artifacts.servers import errors_explained, file_system, is_refusal, time_outs
from multiview.data.reading import beir
from multiview.data.reading.files import base_name, is_web
from multiview.data.reading.formats import SUFFIXES, format_by_suffix, is_metadata
from multiview.data.reading.qrels import (
    FOLDERS,
    SPLITS,
    Use,
    collection_files,
    is_corpus,
    names_beside,
    of_use,
    says_qrels,
    split_of,
)
from multiview.data.reading.values import has_half
from multiview.errors import InputError

VARIABLE = re.compile(r"\$\{(\w+)\}")
SHARD = re.compile(r"(.*?)\d+-of-(\d+)(?:-[0-9a-f]{16})?(|[^\d/][^/]*)", re.DOTALL)
"""The path of one of a data set's numbered files, such as `train-00000-of-00004.parquet`, also with a hash at the end."""
LAKES = {
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
    "metadata/*.metadata.json": "an Iceberg table",
    "snapshot/snapshot-[0-9]*": "a Paimon table",
    "delta_0*_0*": "a Hive table with transactions",
    "_versions/*.manifest": "a Lance table",
}
"""Pattern of what marks the folder of a table with its own list of files, to the kind of table."""
MARKER = re.compile(r"\.(?!.*\.icloud\Z).*|_[^.]*|.*_\$folder\$", re.DOTALL)
"""The name of a file that is not data: a hidden one, unless a stand-in of iCloud's, or what Spark and EMR leave."""
HIDDEN = re.compile(r"/(\.[^/]+|_temporary)/")
"""A hidden folder in a path, or Spark's of files that are not finished."""
CHECKSUMS = ("md5Hash", "crc32c", "ETag", "etag", "generation", "Content-MD5", "Digest", "Last-Modified")
"""Fields in which file systems report a file's checksum or version, the most reliable first."""


def expand_source(source: str, use: Use) -> list[str]:
    """Returns the files that one source names for a use.

    A collection gives its files for the use, and so does a folder whose files are named by splits; any other folder
    gives its files of a known format, sorted, and a pattern its matches, sorted, without hidden files. BEIR's judgements
    come with their queries; for the corpus, they give their passages instead.

    Raises InputError for a variable that is not set, for a protocol that cannot be read, and if there is no file.
    """
    address = _address(source)
    try:
        with errors_explained(address):
            fs, path = file_system(address)
            fs.invalidate_cache()  # it may have listed the folder before
            files = _files(fs, path, address, use)
    except InputError:
        raise
    except Exception as error:  # the protocol's library may not know the address, or not be installed
        raise InputError(f"{source}: cannot be read ({' '.join(str(error).split())})") from None
    if files is None:
        raise InputError(f"{source}: no such file or folder" + ("" if address == source else f" ({address})"))
    if not files:
        read = f"{', '.join(SUFFIXES)} are read, also compressed"
        raise InputError(f"{source}: no files there ({read}){_others(fs, path, source)}")
    if odd := next(filter(has_half, files), None):
        raise InputError(f"{odd!a}: its name is not UTF-8; rename it")
    return files


def _others(fs: AbstractFileSystem, path: str, source: str) -> str:
    """Returns the end of an error line about a folder without data: a pattern for what is there, if anything is."""
    if not fs.isdir(path):
        return ""
    names = [name for name in _listed(fs, path) if base_name(name)[0] not in "._"]
    for name in names:
        if fs.isdir(name):
            suffix = Path(next(filter(format_by_suffix, _listed(fs, name)), "")).suffix
            return f"; for the files of folders, such as {base_name(name)}, name {source.rstrip('/')}/*/*{suffix}"
    return f"; if files such as {base_name(names[0])} are data, name {source.rstrip('/')}/*" if names else ""


def _files(fs: AbstractFileSystem, path: str, address: str, use: Use) -> list[str] | None:
    """Returns the files that a source without variables names; None where nothing has that name."""
    if not isinstance(fs, LocalFileSystem):
        # `info` raises what `isfile` and `isdir` hide: a bucket without access, a server that does not answer.
        with contextlib.suppress(FileNotFoundError):
            fs.info(path)
    # Files come first, since a file's name may contain the brackets of a pattern.
    if not (is_web(address) and path.endswith("/")) and fs.isfile(path):
        try:
            _refuse_lakes(fs, [path])
        except Exception as error:
            if not is_refusal(error):  # who may read a bucket's files may not list them
                raise
        file = path if isinstance(fs, LocalFileSystem) else address  # one name, also where a folder holds it
        beside = [name for name in names_beside(file, use) if fs.exists(name)][:1]
        return beside if beside and use == "corpus" else [*beside, file]
    if fs.isdir(path):
        files = _folder_files(fs, path, use)
    elif not is_web(address) and re.search(r"[*?\[]", path):
        begin = len(re.split(r"[*?\[]", path)[0].rpartition("/")[0])
        meant = HIDDEN.search(path[begin:])
        names = (name for name in sorted(map(str, fs.glob(path))) if meant or not HIDDEN.search(name[begin:]))
        shown = (name for name in names if not MARKER.fullmatch(base_name(name)))
        files = [name for name in shown if _is_file(fs, name)]
        _refuse_lakes(fs, files)
    elif isinstance(fs, LocalFileSystem) and os.path.lexists(path):
        raise _no_file(fs, path)
    else:
        return None
    return files if isinstance(fs, LocalFileSystem) else [fs.unstrip_protocol(name) for name in files]


def expand_sources(sources: Iterable[str], use: Use) -> list[str]:
    """Returns the files of several sources, in the order of the sources, each file once."""
    return list(dict.fromkeys(file for source in sources for file in expand_source(source, use)))


def question_groups(sources: Iterable[str], use: Use) -> list[list[str]]:
    """Returns the files of several sources of questions, grouped by the judgements that they share.

    Each collection is a group, as its judgements are for its own queries; all other files form one more.
    """
    each = [expand_source(source, use) for source in sources]
    collections = [files for files in each if any(map(split_of, files)) and not all(map(split_of, files))]
    together = {file for files in collections for file in files}
    single = dict.fromkeys(file for files in each for file in files if file not in together)
    return [*collections, list(single)] if single else collections


def judged_uses(source: str) -> list[Use]:
    """Returns the uses, training and dev, for which a collection has judgements; none for any other source.

    A collection has its passages and its judged queries in separate files.
    """
    uses: list[Use] = []
    for use in SPLITS:
        with contextlib.suppress(InputError):
            if is_corpus(expand_source(source, "corpus")[0]) and any(
                map(split_of, expand_source(source, use))
            ):
                uses.append(use)
    return uses


def named_split(source: str) -> str:
    """Returns the split of a source that is itself a file of judgements; empty for other sources."""
    fs, path = file_system(address := _address(source))
    return split_of(path if isinstance(fs, LocalFileSystem) else address)


def _address(source: str) -> str:
    """Returns a source with its variables filled in; for a `beir:` name, the folder or file in the cache."""
    if not source.strip():
        raise InputError("a source is named by an empty text: is a variable of the shell not set?")
    for name in VARIABLE.findall(source):
        if not os.environ.get(name):
            line = f"the environment variable {name} is not set; set it or write the path out"
            raise InputError(f"{source}: {line}")
    return beir.located(VARIABLE.sub(lambda match: os.environ[match[1]], source))


def _folder_files(fs: AbstractFileSystem, folder: str, use: Use) -> list[str]:
    """Returns a folder's files for the use if it is a collection, or if all are named by splits; otherwise its files of a
    known format."""
    names = _listed(fs, folder)
    bases = {base_name(name) for name in names}
    is_saved = any(name.endswith(".arrow") for name in bases)
    if saved := bases & ({"state.json", "dataset_dict.json"} if is_saved else {"dataset_dict.json"}):
        raise InputError(f"{folder}: a datasets folder ({min(saved)}); write Parquet with to_parquet")
    pointers = (name for name in sorted(bases) if name.endswith(".dvc") and format_by_suffix(name[:-4]))
    if gone := next((name for name in pointers if name[:-4] not in bases), None):
        raise InputError(f"{folder}/{gone}: a DVC pointer, and its file is not there; run dvc pull")
    files = _data_files(fs, names)
    inner = (name for name in names if base_name(name) in FOLDERS and fs.isdir(name))
    inner = [name for each in inner for name in _data_files(fs, _listed(fs, each))]
    if (collection := collection_files([*files, *inner], use)) is not None:
        _refuse_incomplete(folder, [*files, *inner])
        return collection
    _refuse_lakes(fs, files or [f"{folder}/data/of.parquet"])
    _refuse_incomplete(folder, files)
    files = [name for name in files if format_by_suffix(name) != "text" or says_qrels(name)] or files
    return files if use == "corpus" else of_use(files, use)


def _data_files(fs: AbstractFileSystem, names: Iterable[str]) -> list[str]:
    """Returns those of `names` that are files of a known format and hold data."""
    data = (name for name in names if format_by_suffix(name) and not is_metadata(name))
    return [name for name in data if _is_file(fs, name)]


def _refuse_incomplete(folder: str, files: Iterable[str]) -> None:
    """Raises InputError for numbered files some of which are missing."""
    parts = Counter(match.groups() for file in files if (match := SHARD.fullmatch(file)))
    versions = Counter((before, after) for before, _, after in parts)
    for (before, total, after), number in parts.items():
        if number != int(total) or versions[before, after] > 1:
            raise InputError(
                f"{folder}: {number} of {total} files {before.rpartition('/')[2]}*-of-{total}{after} are there, the others "
                "are missing or of another number; name the files if that is meant"
            )


def unread_files(source: str, files: Collection[str]) -> list[str]:
    """Returns the names of what a source's folder holds, or its pattern matches, of which nothing is among `files`."""
    fs, path = file_system(_address(source))
    if is_web(source) or fs.isfile(path):
        return []
    known = {name for file in files for name in file.split("/")[-2:]}
    found = _listed(fs, path) if fs.isdir(path) else sorted(map(str, fs.glob(path)))
    passages = [
        name for name in found if base_name(name) == FOLDERS[0] and FOLDERS[0] in known and fs.isdir(name)
    ]
    found += [name for folder in passages for name in _listed(fs, folder)]  # of other splits
    return [name for name in map(base_name, found) if not MARKER.fullmatch(name) and name not in known]


def _listed(fs: AbstractFileSystem, folder: str) -> list[str]:
    return sorted(map(str, fs.ls(folder, detail=False)))


def _is_file(fs: AbstractFileSystem, name: str) -> bool:
    """Whether a name is a file. Raises InputError for a folder with a data suffix, a dead link, pipe or device."""
    if not fs.isfile(name) and (format_by_suffix(name) or not fs.isdir(name)):
        raise _no_file(fs, name)
    return fs.isfile(name)


def _no_file(fs: AbstractFileSystem, name: str) -> InputError:
    """Returns the error about a name that is no regular file."""
    if fs.isdir(name):
        name = name if isinstance(fs, LocalFileSystem) else fs.unstrip_protocol(name)
        return InputError(f"{name}: a folder; name its files, as in {name}/*{Path(name).suffix}")
    if isinstance(fs, LocalFileSystem) and Path(name).is_symlink():
        return InputError(f"{name}: a link to {Path(name).readlink()}, which is not there")
    return InputError(f"{name}: a pipe or a device, and files are read more than once; write it to a file")


def _refuse_lakes(fs: AbstractFileSystem, files: Iterable[str]) -> None:
    """Raises InputError for Parquet files of a table that has its own list of files: some may hold deleted rows."""
    folders = {
        str(folder)
        for file in files
        if format_by_suffix(file) == "parquet" and not is_web(file)
        for folder in [each for each in PurePosixPath(file).parents if each.name and "=" not in each.name][:4]
    }
    for folder in sorted(folders):
        for mark, table in LAKES.items():
            if fs.glob(f"{glob.escape(folder)}/{mark}"):
                raise InputError(
                    f"{folder}: {table} ({mark}): its files also hold rows that were overwritten or deleted; export the "
                    "current version as Parquet, as by Spark, Trino or DuckDB (delta_scan, iceberg_scan)"
                )


def fingerprints(files: Iterable[str]) -> list[dict[str, object]]:
    """Returns the files' content fingerprints, as inputs of an artifact's key: each one's name with its sha256.

    For a remote file, the size and checksum that the file system reports replace the sha256, if it reports a checksum.
    """
    records: list[dict[str, object]] = []
    for file in files:
        fs, path = file_system(file)
        name = base_name(file)
        info = {} if isinstance(fs, LocalFileSystem) else fs.info(path)
        key = next((key for key in CHECKSUMS if info.get(key)), None)
        if key:
            records.append({"name": name, "bytes": info.get("size"), key: str(info[key])})
            continue
        with fsspec.open(file, "rb", **time_outs(file)) as stream:
            digest = hashlib.file_digest(stream, "sha256")  # pyright: ignore[reportArgumentType]
        records.append({"name": name, "sha256": digest.hexdigest()})
    return records
