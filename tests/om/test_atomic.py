"""The safe writer: at every failure and every kill the target is the old or the new file, and nothing else is left."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from atcpy.errors import ResourceLimit, UsageError
from atcpy.om import atomic
from atcpy.om.atomic import atomic_write, atomic_write_together, directory, require_writable

OLD = b"old" * 1000
NEW = [b"n" * 5000, bytearray(b"e" * 3), memoryview(b"w" * 70000)]
NEW_BYTES = b"".join(bytes(b) for b in NEW)


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "m.om"
    path.write_bytes(OLD)
    return path


def test_writes_all_buffers_and_leaves_nothing_else(tmp_path: Path) -> None:
    atomic_write(tmp_path / "m.om", NEW)
    assert files(tmp_path) == {"m.om": NEW_BYTES}


def test_buffers_may_be_a_generator_of_wide_items(tmp_path: Path) -> None:
    wide = memoryview(bytes(range(16))).cast("I")
    atomic_write(tmp_path / "m.om", (b for b in (wide, b"", b"x")))
    assert files(tmp_path) == {"m.om": bytes(range(16)) + b"x"}


def test_permissions_of_the_old_file_stay(target: Path) -> None:
    target.chmod(0o640)
    atomic_write(target, NEW)
    assert target.stat().st_mode & 0o777 == 0o640


def test_symbolic_link_stays_and_its_file_is_replaced(target: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.om"
    link.symlink_to(target.name)
    atomic_write(link, NEW)
    assert link.is_symlink() and target.read_bytes() == NEW_BYTES


def test_short_writes_are_continued(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:777])))
    atomic_write(target, NEW)
    assert target.read_bytes() == NEW_BYTES


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "close", "open"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
def test_every_failing_call_leaves_old_or_new_and_no_litter(
    call: str, code: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_CHUNK_BYTES", 20000)
    real: Callable[..., object] = getattr(os, call)
    refused = 0
    for n in range(1, 100):
        target.write_bytes(OLD)
        calls = 0

        def failing(*args: object, n: int = n, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls == n:
                if call == "close":
                    real(*args, **kwargs)
                raise OSError(code, os.strerror(code))
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                atomic_write(target, NEW)
            except ResourceLimit as error:
                assert error.code == ("R0002" if code in (errno.ENOSPC, errno.EDQUOT) else "E13004")
                refused += 1
        left = files(target.parent)
        assert left.keys() == {"m.om"}
        assert left["m.om"] in (OLD, NEW_BYTES)
        if calls < n:
            break
    assert refused == n - 1 >= 1
    assert left["m.om"] == NEW_BYTES


def test_fsync_of_the_file_comes_before_the_rename_and_of_the_folder_after(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace: list[str] = []

    def record(call: str) -> None:
        real = getattr(os, call)

        def traced(*args: object, **kwargs: object) -> object:
            trace.append(call)
            return real(*args, **kwargs)

        monkeypatch.setattr(os, call, traced)

    for call in ("write", "fsync", "rename"):
        record(call)
    atomic_write(target, NEW)
    assert trace == ["write", "write", "write", "fsync", "rename", "fsync"]


def test_interrupt_leaves_the_old_file(target: Path) -> None:
    def interrupted() -> Iterator[bytes]:
        yield b"part"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic_write(target, interrupted())
    assert files(target.parent) == {"m.om": OLD}


def test_interrupt_right_behind_the_creation_of_the_file_leaves_none(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = os.open

    def interrupted(path: str, flags: int, *rest: int, **where: int) -> int:
        descriptor = create(path, flags, *rest, **where)
        if flags & os.O_CREAT:
            os.close(descriptor)
            raise KeyboardInterrupt  # as Python raises it between two lines
        return descriptor

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(target, NEW)
    assert files(target.parent) == {"m.om": OLD}


def test_temporary_file_of_another_writer_of_the_same_number_stays(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two machines that share a disk may have processes of one number."""
    theirs = target.parent / ".m.om.1-0.tmp"
    theirs.write_bytes(b"theirs")
    monkeypatch.setattr(atomic, "_temporary_name", lambda _name: theirs.name)
    with pytest.raises(UsageError):
        atomic_write(target, NEW)
    assert files(target.parent) == {"m.om": OLD, theirs.name: b"theirs"}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("m.om/below-a-file.om", "E13004"),
        ("m.om/no/such/folder/m.om", "E13004"),
        ("folder", "E10022"),
        ("fifo", "E13004"),
        ("x" * 300, "E10021"),
        ("nul\0byte", "E13004"),
    ],
)
def test_path_that_cannot_be_written_is_a_usage_error(path: str, code: str, target: Path) -> None:
    (target.parent / "folder").mkdir()
    os.mkfifo(target.parent / "fifo")
    with pytest.raises(UsageError) as caught:
        atomic_write(target.parent / path, NEW)
    assert caught.value.code == code
    with pytest.raises(UsageError) as refused:
        require_writable(target.parent / path)
    assert refused.value.code == code
    assert target.read_bytes() == OLD


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127])
def test_longest_name_can_be_written(name: str, tmp_path: Path) -> None:
    atomic_write(tmp_path / name, NEW)
    assert files(tmp_path) == {name: NEW_BYTES}


KILLED = """
import os, signal, sys
from atcpy.om.atomic import atomic_write, atomic_write_together, directory
call, n = sys.argv[2], int(sys.argv[3])
real, count = getattr(os, call), 0
def dying(*args, **kwargs):
    global count
    count += 1
    if count == n:
        if call == "write":
            real(args[0], args[1][: len(args[1]) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(os, call, dying)
atomic_write(sys.argv[1], [b"n" * 5000, b"e" * 3, b"w" * 70000])
"""


@pytest.mark.parametrize(
    ("call", "n", "content"),
    [
        ("write", 1, OLD),
        ("write", 3, OLD),
        ("fsync", 1, OLD),
        ("close", 1, OLD),
        ("rename", 1, OLD),
        ("fsync", 2, None),
    ],
)
def test_kill_leaves_a_whole_file_and_the_next_run_cleans_up(
    call: str, n: int, content: bytes | None, target: Path
) -> None:
    run = subprocess.run([sys.executable, "-c", KILLED, str(target), call, str(n)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert target.read_bytes() == (content or b"n" * 5000 + b"e" * 3 + b"w" * 70000)
    atomic_write(target, NEW)
    assert files(target.parent) == {"m.om": NEW_BYTES}


def test_temporary_file_of_a_living_process_is_kept(target: Path) -> None:
    living = target.parent / f".m.om.{os.getppid()}-0.tmp"
    living.write_bytes(b"being written")
    others = target.parent / ".other.om.999999999-0.tmp"
    others.write_bytes(b"of another target")
    atomic_write(target, NEW)
    assert living.exists() and others.exists()


LIMITED = """
import resource, sys
from atcpy.errors import ResourceLimit
from atcpy.om.atomic import atomic_write, atomic_write_together, directory
resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))
try:
    atomic_write(sys.argv[1], [b"n" * 40000] * 3)
except ResourceLimit as error:
    sys.exit(error.exit_code)
"""


def test_file_size_limit_of_the_system_is_a_resource_limit(target: Path) -> None:
    run = subprocess.run([sys.executable, "-c", LIMITED, str(target)], check=False)
    assert run.returncode == 6
    assert files(target.parent) == {"m.om": OLD}


def test_many_writers_and_readers_see_whole_files_only(target: Path) -> None:
    contents = [bytes([i]) * 300_000 for i in range(4)]

    def write(content: bytes) -> None:
        for _ in range(20):
            atomic_write(target, [content[:100_000], content[100_000:]])

    with ThreadPoolExecutor(len(contents)) as pool:
        writers = [pool.submit(write, content) for content in contents]
        seen = {target.read_bytes()}
        while not all(writer.done() for writer in writers):
            seen.add(target.read_bytes())
        for writer in writers:
            writer.result()
    assert seen <= {OLD, *contents}
    assert files(target.parent).keys() == {"m.om"}


def test_what_finish_changes_is_in_the_file(target: Path) -> None:
    atomic_write(target, [b"....body"], finish=lambda fd: os.pwrite(fd, b"head", 0) and None)
    assert target.read_bytes() == b"headbody"


def test_a_process_that_ends_without_unwinding_removes_its_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "m.om"
    target.write_bytes(b"old")
    seen: list[list[str]] = []

    def buffers() -> Iterator[bytes]:
        yield b"new"
        seen.append(sorted(os.listdir(tmp_path)))
        atomic.abandon()
        seen.append(sorted(os.listdir(tmp_path)))

    with pytest.raises(UsageError):  # the rename finds nothing
        atomic.atomic_write(target, buffers())
    assert len(seen[0]) == 2 and seen[1] == ["m.om"]
    assert target.read_bytes() == b"old"


def test_a_temporary_file_of_another_user_is_kept(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = target.parent / ".m.om.999999999-0.tmp"
    theirs.write_bytes(b"being written")

    def refuse(pid: int, signal: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "kill", refuse)
    atomic_write(target, NEW)
    assert theirs.read_bytes() == b"being written"


def test_a_file_is_moved_over_another(target: Path) -> None:
    made = target.with_name("made.om")
    atomic_write(made, NEW)
    atomic.move(made, target)
    assert files(target.parent) == {"m.om": NEW_BYTES}


def test_a_directory_is_made_with_those_above_it(tmp_path: Path) -> None:
    for _ in range(2):
        with directory(tmp_path / "a" / "b"):
            pass
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(
    "act",
    [
        lambda target: atomic.move(target, target.parent / "no folder" / "m.om"),
        lambda target: atomic.move(target.with_name("missing"), target),
    ],
    ids=["move into no folder", "move of nothing"],
)
def test_what_cannot_be_moved_is_a_usage_error(act: Callable[[Path], None], target: Path) -> None:
    with pytest.raises(UsageError) as caught:
        act(target)
    assert caught.value.code == "E13004"
    assert files(target.parent) == {"m.om": OLD}


# ---- files that belong together, and their directory


@pytest.mark.parametrize("call", ["write", "fsync", "open"])
def test_files_that_belong_together_are_all_old_or_all_new(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = dict.fromkeys(("a", "b", "c"), OLD)
    real: Callable[..., object] = getattr(os, call)
    refused = 0
    for n in range(1, 100):
        for name, content in old.items():
            (tmp_path / name).write_bytes(content)
        calls = 0

        def failing(*args: object, n: int = n, **kwargs: object) -> object:
            nonlocal calls
            calls += 1
            if calls == n:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                atomic_write_together({tmp_path / name: [name.encode()] for name in old})
            except ResourceLimit:
                refused += 1
        assert files(tmp_path) in (old, {name: name.encode() for name in old})
        if calls < n:
            break
    assert refused == n - 1 >= 3


def test_directories_that_were_created_go_with_what_failed_in_them(tmp_path: Path) -> None:
    with pytest.raises(ResourceLimit), directory(tmp_path / "a" / "b"):
        raise ResourceLimit("R0002", "full")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "a").mkdir()
    with pytest.raises(ResourceLimit), directory(tmp_path / "a" / "b") as made:
        (made / "file").touch()
        raise ResourceLimit("R0002", "full")
    with pytest.raises(KeyboardInterrupt), directory(tmp_path / "a"):
        raise KeyboardInterrupt
    assert (tmp_path / "a" / "b" / "file").exists()


def test_folders_that_are_missing_are_created(tmp_path: Path) -> None:
    require_writable(tmp_path / "a" / "b" / "m.om")
    assert files(tmp_path) == {}
    atomic_write(tmp_path / "a" / "b" / "m.om", NEW)
    assert files(tmp_path / "a" / "b") == {"m.om": NEW_BYTES}


def test_folders_that_were_created_for_a_file_go_with_it(tmp_path: Path) -> None:
    def refuse(_descriptor: int) -> None:
        raise ResourceLimit("R0002", "full")

    with pytest.raises(ResourceLimit):
        atomic_write(tmp_path / "a" / "b" / "m.om", NEW, finish=refuse)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file/below", "nul\0byte", "x" * 300])
def test_directory_that_cannot_be_is_a_usage_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught, directory(tmp_path / name):
        pass
    assert caught.value.code == ("E10021" if len(name) > 255 else "E13004")


def test_of_files_that_belong_together_the_last_is_finished_and_renamed_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old").write_bytes(OLD)
    renamed: list[str] = []
    rename = os.rename

    def note(source: str, target: str, **folders: int) -> None:
        if target == "last" and "refused" in renamed:
            raise OSError(errno.EIO, "disk")
        renamed.append(target)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", note)
    contents = {tmp_path / name: [b"new"] for name in ("first", "old", "last")}
    atomic_write_together(contents, finish=lambda fd: os.pwrite(fd, b"N", 0) and None)
    assert renamed == ["first", "old", "last"]
    assert files(tmp_path) == {"first": b"new", "old": b"new", "last": b"New"}
    renamed.append("refused")
    (tmp_path / "first").unlink()
    with pytest.raises(ResourceLimit):
        atomic_write_together({path: [b"other"] for path in contents})
    assert files(tmp_path) == {"old": b"other", "last": b"New"}  # what was not there is not there again


def test_what_can_be_written_is_known_before_there_is_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_writable(tmp_path / "m.om")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(UsageError) as caught:
        require_writable(tmp_path / "m.om")
    assert caught.value.code == "E13004"
