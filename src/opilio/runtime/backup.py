"""Backup and restore: the database as one snapshot, the objects it refers to, and a check of both after a restore."""

import asyncio
import hashlib
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg
import msgspec
import obstore
from obstore.store import LocalStore, ObjectStore

import opilio
from opilio import audit
from opilio.adapters.blobs import open_store
from opilio.adapters.postgres import Database
from opilio.adapters.postgres.database_url import parse_database_url
from opilio.adapters.postgres.embedded import binary
from opilio.errors import OpilioError, Unavailable
from opilio.runtime.bootstrap import database_url
from opilio.runtime.settings import Settings

_DUMP, _BLOBS, _MANIFEST = "database.dump", "blobs", "manifest.json"
_CHUNK = 1 << 20
_TABLES = """
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition order by c.relname
"""


class Manifest(msgspec.Struct, kw_only=True):
    """What a backup holds; a restore is compared with it."""

    created_at: datetime
    opilio_version: str
    revision: str
    dump_sha256: str
    rows: dict[str, int]
    blobs: int | None
    blob_bytes: int | None


async def back_up(settings: Settings, folder: Path, *, blobs: bool = True) -> Manifest:
    """Writes a backup into a new or empty folder; Opilio may go on running meanwhile."""
    _make_folder(folder)
    async with database_url(settings) as url:
        revision, rows = await _dump(url, folder / _DUMP)
    # Objects are stored before the row that names them, so those of the snapshot are all there by now.
    count, size = await _copy(open_store(settings.blobs), _files(folder)) if blobs else (None, None)
    manifest = Manifest(
        created_at=datetime.now(UTC),
        opilio_version=opilio.__version__,
        revision=revision,
        dump_sha256=await asyncio.to_thread(_sha256, folder / _DUMP),
        rows=rows,
        blobs=count,
        blob_bytes=size,
    )
    (folder / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _make_folder(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise OpilioError(f"{folder} is not empty: name a new folder for the backup")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


async def restore(settings: Settings, folder: Path, *, by: str = audit.SYSTEM) -> Manifest:
    """Fills an empty database and the object storage from a backup, and checks that all of it arrived."""
    manifest = _read_manifest(folder)
    if await asyncio.to_thread(_sha256, folder / _DUMP) != manifest.dump_sha256:
        raise OpilioError(f"{folder / _DUMP} is damaged: its checksum is not the one of the backup")
    async with database_url(settings) as url:
        await _refuse_unless_empty(url)
        words = ("--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction")
        await _run("pg_restore", url, *words, str(folder / _DUMP))
        await _compare(url, manifest)
        await _record_restore(url, manifest, by)
    if manifest.blobs is not None:
        copied = await _copy(_files(folder), open_store(settings.blobs))
        if copied != (manifest.blobs, manifest.blob_bytes):
            raise OpilioError(
                f"{copied[0]} objects of {copied[1]} bytes were copied, the backup has {manifest.blobs} of "
                f"{manifest.blob_bytes} bytes: the folder {folder / _BLOBS} is not complete"
            )
    return manifest


def _read_manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise OpilioError(f"{folder} holds no backup: there is no {_MANIFEST}") from None
    except msgspec.MsgspecError as error:
        raise OpilioError(f"{folder / _MANIFEST} cannot be read: {error}") from None


# ── the database ─────────────────────────────────────────────────────────────────────────────────


async def _dump(url: str, file: Path) -> tuple[str, dict[str, int]]:
    """Dumps and counts in one snapshot, so that the counts are those of the dump."""
    connection = await asyncpg.connect(**parse_database_url(url).arguments("opilio backup"))
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            snapshot = await connection.fetchval("select pg_export_snapshot()")
            words = ("--format=custom", "--compress=6", f"--snapshot={snapshot}", f"--file={file}")
            counting = asyncio.create_task(_count(connection))
            await _run("pg_dump", url, *words)
            rows = await counting
            revision = await connection.fetchval("select version_num from alembic_version")
    finally:
        await connection.close()
    return str(revision), rows


async def _count(connection: asyncpg.Connection) -> dict[str, int]:
    names = [row[0] for row in await connection.fetch(_TABLES)]
    return {name: await connection.fetchval(f'select count(*) from public."{name}"') for name in names}


async def _refuse_unless_empty(url: str) -> None:
    connection = await asyncpg.connect(**parse_database_url(url).arguments("opilio backup"))
    try:
        tables = await connection.fetch(_TABLES)
    finally:
        await connection.close()
    if tables:
        raise OpilioError(
            f"The database is not empty ({len(tables)} tables). Restore into a new one: `createdb`, or another --data-dir"
        )


async def _compare(url: str, manifest: Manifest) -> None:
    connection = await asyncpg.connect(**parse_database_url(url).arguments("opilio backup"))
    try:
        found = await _count(connection)
    finally:
        await connection.close()
    wrong = [
        f"{name}: {found.get(name, 0)} of {rows}"
        for name, rows in manifest.rows.items()
        if found.get(name) != rows
    ]
    if wrong:
        raise OpilioError(f"The restored database differs from the backup: {', '.join(wrong)}")


async def _record_restore(url: str, manifest: Manifest, by: str) -> None:
    database = await Database.connect(url, size=2, hot_size=1, name="opilio backup")
    try:
        details = {"created_at": manifest.created_at, "revision": manifest.revision}
        await audit.record(database, by, "database.restore", "database", details)
    finally:
        await database.close()


async def _run(program: str, url: str, *words: str) -> None:
    """A program of PostgreSQL; the password goes by the environment, where other users cannot read it."""
    parts = urlsplit(url)
    environment = dict(os.environ)
    if parts.password is not None:
        environment["PGPASSWORD"] = unquote(parts.password)
    user = f"{parts.netloc.rpartition('@')[0].partition(':')[0]}@" if "@" in parts.netloc else ""
    bare = urlunsplit(parts._replace(netloc=user + parts.netloc.rpartition("@")[2]))
    try:
        process = await asyncio.create_subprocess_exec(
            str(binary(program)), f"--dbname={bare}", *words, env=environment, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise Unavailable(f"{program} could not be started: {error}") from error
    _, said = await process.communicate()
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise OpilioError(f"{program} failed: {lines[0] if lines else f'exit code {process.returncode}'}")


# ── objects ──────────────────────────────────────────────────────────────────────────────────────


def _files(folder: Path) -> ObjectStore:
    return LocalStore(str(folder / _BLOBS), mkdir=True)


async def _copy(source: ObjectStore, target: ObjectStore) -> tuple[int, int]:
    """Copies every object; answers how many and how many bytes."""
    count = size = 0
    async for page in obstore.list(source, chunk_size=1000):
        for entry in page:
            found = await obstore.get_async(source, entry["path"])
            body = await found.bytes_async()
            await obstore.put_async(target, entry["path"], body)
            count, size = count + 1, size + len(body)
    return count, size


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                digest.update(chunk)
    except FileNotFoundError:
        raise OpilioError(f"{file} is missing") from None
    return digest.hexdigest()
