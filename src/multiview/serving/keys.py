"""API keys, which a request gives as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""

import hashlib
import hmac
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from fastapi import HTTPException, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from multiview import environment
from multiview.errors import InputError

BEARER = HTTPBearer(auto_error=False, description="An API key, where the server asks for one.")
HEADER = APIKeyHeader(name="X-API-Key", auto_error=False, description="The same key in a header of its own.")


def read_keys(file: Path | None) -> list[str]:
    """Returns the keys in a file, one per line, or without a file those in the environment, separated by white space;
    none means that everybody may ask. Lines that begin with `#` are comments. Raises InputError for a file that is
    missing or has no key, for a variable that is set but blank, and for a key that a header cannot hold."""
    if file is None:
        source, way_out = environment.API_KEYS, "name one, or leave it unset and everybody may ask"
        if (text := os.environ.get(environment.API_KEYS)) is None:
            return []
        keys = text.split()
    else:
        source, way_out = f"--api-keys {file}", "write one per line"
        try:
            lines = map(str.strip, file.read_text(encoding="utf-8").splitlines())
        except OSError as error:
            raise InputError(f"{source}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise InputError(f"{source}: not UTF-8; convert the file") from None
        keys = [line for line in lines if line and not line.startswith("#")]
    if not keys:
        raise InputError(f"{source}: there is no key in it; {way_out}")
    for number, key in enumerate(keys, 1):
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(
                f"{source}: key {number} has a character that is not printable ASCII; choose another key"
            )
    return keys


class KeyCheck:
    """The dependency of every route that asks for a key."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    async def __call__(
        self,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)],
        header: Annotated[str | None, Security(HEADER)],
    ) -> None:
        """Raises 401 unless the request has one of the keys, or none is needed. Keys are compared in constant time."""
        given = [_digest(key) for key in (bearer.credentials if bearer else None, header) if key]
        equal = [hmac.compare_digest(one, known) for one in given for known in self._digests]
        if self._digests and not any(equal):
            raise HTTPException(
                401, "an API key is needed: Authorization: Bearer KEY", {"WWW-Authenticate": "Bearer"}
            )


def _digest(key: str) -> bytes:
    """The digest of a key, so that keys of any length are compared in the same time."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
