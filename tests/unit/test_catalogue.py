"""The catalogue: a set is whole and checked, or it is not there."""

import gzip
import hashlib
import io
import os
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from regard.data import archives, catalogue, sets
from regard.data.sets import Dataset, File
from regard.errors import UserError
from regard.verbs import display

SMALL = 5_000_000
WAVS = {"a.wav": b"RIFF one", "b.wav": b"RIFF two two"}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entry(name: str, data: bytes, url: str = "") -> File:
    return File(name, len(data), sha(data), url)


def tree(name: str, files: dict[str, bytes], url: str = "") -> File:
    lines = "".join(f"{each} {sha(data)}\n" for each, data in sorted(files.items()))
    return File(name, sum(map(len, files.values())), sha(lines.encode()), url)


def fill(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def put_set(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the catalogue hold one small set of this name."""

    def put(name: str, *files: File, make=None, note="") -> None:
        about: dict[str, Any] = {
            "what": "a small set",
            "licence": "none",
            "source": "https://example.org/home",
        }
        dataset = Dataset(**about, note=note, make=make, files=files)
        monkeypatch.setattr(catalogue, "known", lambda: {name: dataset})

    return put


class Quiet(SimpleHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path.startswith("/short"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"only this")
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """The address of a server on this machine, the folder it shows, what it was asked for."""
    folder = tmp_path / "public"
    folder.mkdir()
    asked: list[str] = []
    handler = type("Handler", (Quiet,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as http:
        threading.Thread(target=http.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}", folder, asked
        http.shutdown()


# From a local copy


@pytest.mark.parametrize("inside", ["", "tiny"])
def test_a_local_copy_is_taken_from_the_folder_or_from_inside_it(home, put_set, tmp_path, inside):
    put_set("tiny", entry("a.txt", b"one\n"), tree("wav/", WAVS))
    source = tmp_path / "copy"
    fill(source / inside, {"a.txt": b"one\n", "other": b"", **{f"wav/{k}": WAVS[k] for k in WAVS}})
    (source / inside / "wav" / ".DS_Store").write_bytes(b"noise")
    (source / inside / "wav").chmod(0o555)
    folder = catalogue.get("tiny", source)
    assert folder == catalogue.find("tiny") == home / "tiny"
    assert sorted(p.name for p in folder.rglob("*")) == ["a.txt", "a.wav", "b.wav", "wav"]
    assert (folder / "wav" / "b.wav").read_bytes() == WAVS["b.wav"]
    assert os.access(folder / "wav", os.W_OK) and (folder / "wav").stat().st_mode & 0o200


def test_a_folder_that_lost_a_file_is_replaced(home, put_set, tmp_path):
    put_set("tiny", tree("wav/", WAVS))
    source = fill(tmp_path / "copy", {f"wav/{name}": data for name, data in WAVS.items()})
    folder = catalogue.get("tiny", source)
    (folder / "wav" / "a.wav").unlink()
    assert catalogue.get("tiny", source) == folder
    assert {p.name: p.read_bytes() for p in (folder / "wav").iterdir()} == WAVS


def test_a_wrong_checksum_names_both_and_leaves_nothing(home, put_set, tmp_path):
    put_set("tiny", entry("a.txt", b"one\n"), entry("b.txt", b"two\n"))
    source = fill(tmp_path / "copy", {"a.txt": b"one\n", "b.txt": b"2wo\n"})
    with pytest.raises(UserError) as error:
        catalogue.get("tiny", source)
    for part in [str(source / "b.txt"), sha(b"two\n"), sha(b"2wo\n")]:
        assert part in str(error.value)
    assert list(home.iterdir()) == []


def test_one_changed_or_missing_file_of_many_is_noticed(home, put_set, tmp_path):
    put_set("tiny", tree("wav/", WAVS))
    for change in [{"a.wav": b"RIFF 0ne"}, {"c.wav": b"x"}]:
        source = tmp_path / next(iter(change))
        fill(source / "wav", WAVS | change)
        with pytest.raises(UserError, match="sha256"):
            catalogue.get("tiny", source)


def test_gzip_is_checked_by_its_content(home, put_set, tmp_path):
    """Another compressor gives other bytes; the data are the same."""
    put_set("tiny", entry("a.gz", b"one\n"))
    for level in (1, 9):
        source = fill(tmp_path / str(level), {"a.gz": gzip.compress(b"one\n", level, mtime=level)})
        assert catalogue.get("tiny", source, to=tmp_path / f"to{level}").is_dir()
    cut = fill(tmp_path / "cut", {"a.gz": gzip.compress(b"one\n")[:-3]})
    with pytest.raises(UserError, match=r"a\.gz is not a whole gzip file"):
        catalogue.get("tiny", cut)


def test_a_local_copy_may_be_the_download(home, put_set, tmp_path):
    url = "https://example.org/data/all.zip"
    put_set(
        "tiny", entry("a.txt", b"one\n", url), entry("b.txt", b"two\n", "https://x.org/b.txt.gz")
    )
    packed = zipped({"deep/a.txt": b"one\n"})
    source = fill(tmp_path / "copy", {"all.zip": packed, "b.txt.gz": gzip.compress(b"two\n")})
    folder = catalogue.get("tiny", source)
    assert (folder / "a.txt").read_bytes() + (folder / "b.txt").read_bytes() == b"one\ntwo\n"


def test_a_local_folder_without_the_files_is_refused(home, put_set, tmp_path):
    put_set("tiny", entry("a.txt", b"one\n", "https://example.org/a.txt.gz"))
    with pytest.raises(UserError, match=r"not all files of tiny: a\.txt; nor has it a\.txt\.gz"):
        catalogue.get("tiny", tmp_path)
    with pytest.raises(UserError, match=r"nowhere: there is no such folder"):
        catalogue.get("tiny", tmp_path / "nowhere")


# From the network


def test_a_home_that_nobody_knows(monkeypatch):
    monkeypatch.setenv("REGARD_DATA", "~nosuchuser/data")
    with pytest.raises(UserError, match=r"set \$REGARD_DATA to the folder of the data sets: "):
        catalogue.home()


def test_files_archives_and_folders_are_downloaded_once(home, put_set, server):
    address, public, asked = server
    members = {"top/data/b.txt": b"two\n", "top/c.txt": b"three\n", "top/b.txt.old": b""}
    recordings = {f"fsdd-1.0/recordings/{name}": data for name, data in WAVS.items()}
    fill(
        public,
        {
            "a.txt": b"one\n",
            "d.txt.gz": gzip.compress(b"four\n"),
            "e.gz": gzip.compress(b"five\n"),
            "all.zip": zipped(members),
            "v1.tar.gz": tarred({**recordings, "fsdd-1.0/other/c.wav": b"no"}),
        },
    )
    put_set(
        "tiny",
        entry("a.txt", b"one\n", f"{address}/a.txt"),
        entry("b.txt", b"two\n", f"{address}/all.zip"),
        entry("c.txt", b"three\n", f"{address}/all.zip"),
        entry("d.txt", b"four\n", f"{address}/d.txt.gz"),
        entry("e.gz", b"five\n", f"{address}/e.gz"),
        tree("recordings/", WAVS, f"{address}/v1.tar.gz"),
    )
    told: dict[str, tuple[int, int]] = {}
    folder = catalogue.get(
        "tiny", progress=lambda name, done, total: told.update({name: (done, total)})
    )
    assert {p.name: p.read_bytes() for p in folder.glob("?.txt")} == {
        "a.txt": b"one\n", "b.txt": b"two\n", "c.txt": b"three\n", "d.txt": b"four\n",
    }  # fmt: skip
    assert gzip.decompress((folder / "e.gz").read_bytes()) == b"five\n"
    assert {p.name: p.read_bytes() for p in (folder / "recordings").iterdir()} == WAVS
    assert told["a.txt"] == (4, 4) and told["all.zip"][0] == (public / "all.zip").stat().st_size
    assert sorted(asked) == ["/a.txt", "/all.zip", "/d.txt.gz", "/e.gz", "/v1.tar.gz"]
    assert catalogue.get("tiny") == folder
    assert len(asked) == 5
    assert [p.name for p in home.iterdir()] == ["tiny"]


def test_only_what_is_missing_makes_a_set_incomplete(home, put_set, server):
    address, public, _ = server
    fill(public, {"a.txt": b"one\n", "b.txt": b"two\n"})
    put_set(
        "tiny",
        *(entry(n, d, f"{address}/{n}") for n, d in {"a.txt": b"one\n", "b.txt": b"two\n"}.items()),
    )
    folder = catalogue.get("tiny")
    (folder / "mine.txt").write_text("notes")
    (folder / "b.txt").write_text("tw")
    with pytest.raises(UserError, match="tiny is incomplete"):
        catalogue.find("tiny")
    catalogue.get("tiny")
    assert (folder / "b.txt").read_bytes() == b"two\n"
    assert (folder / "mine.txt").read_text() == "notes"


@pytest.mark.parametrize("path", ["gone.txt", "short.txt", "wrong.txt"])
def test_a_failed_download_says_what_to_do_and_leaves_nothing(home, put_set, server, path):
    address, public, _ = server
    fill(public, {"a.txt": b"one\n", "wrong.txt": b"2wo\n"})
    put_set(
        "tiny",
        entry("a.txt", b"one\n", f"{address}/a.txt"),
        entry("b.txt", b"two\n", f"{address}/{path}"),
    )
    said = {
        "gone.txt": "404.*--from DIR",
        "short.txt": "9 (of 100 bytes|bytes read).*--from DIR",
        "wrong.txt": f"{sha(b'2wo' + bytes([10]))}, expected {sha(b'two' + bytes([10]))}",
    }[path]
    with pytest.raises(UserError, match=said) as error:
        catalogue.get("tiny")
    assert f"{address}/{path}" in str(error.value)
    assert list(home.iterdir()) == []


def test_without_a_network_the_way_out_is_named(home, put_set):
    put_set("tiny", entry("a.txt", b"one\n", "http://127.0.0.1:9/a.txt"))
    with pytest.raises(
        UserError, match=r"could not download http.*regard data get tiny --from DIR"
    ):
        catalogue.get("tiny")


def test_a_set_without_a_public_copy_is_asked_for_by_hand(home, put_set):
    put_set("tiny", entry("a.txt", b"one\n"), note="It was cut by hand.")
    with pytest.raises(UserError, match=r"cut by hand.*example\.org/home.*--from DIR.*a\.txt"):
        catalogue.get("tiny")


def test_nothing_gets_out_of_an_archive(home, put_set, tmp_path):
    evil = {
        "x/wav/../../../evil.wav": b"1",
        "/wav/..": b"2",
        "wav/..\\evil.wav": b"3",
        "wav/.hidden": b"4",
        "wav/sub/deep.wav": b"5",
    }
    good = {f"x/wav/{name}": data for name, data in WAVS.items()}
    for name, packed in {"all.zip": zipped(evil | good), "all.tar.gz": tarred(evil | good)}.items():
        fill(tmp_path, {name: packed})
        put_set("tiny", tree("wav/", WAVS, (tmp_path / name).as_uri()))
        before = {p for p in tmp_path.rglob("*") if home not in p.parents}
        folder = catalogue.get("tiny", to=home / name)
        assert {p.name for p in (folder / "wav").iterdir()} == set(WAVS)
        assert {p for p in tmp_path.rglob("*") if home not in p.parents} - before <= {home}
        assert [p.name for p in (home / name).iterdir()] == ["tiny"]


def test_links_in_an_archive_are_not_followed(home, put_set, tmp_path):
    secret = fill(tmp_path, {"secret": b"one\n"}) / "secret"
    fill(tmp_path, {"all.tar.gz": tarred({}, links={"a.txt": str(secret)})})
    put_set("tiny", entry("a.txt", b"one\n", (tmp_path / "all.tar.gz").as_uri()))
    with pytest.raises(UserError, match=r"all\.tar\.gz has no file a\.txt"):
        catalogue.get("tiny")


@pytest.mark.parametrize("name", ["all.zip", "all.tar.gz", "a.txt.gz"])
def test_a_small_archive_cannot_fill_the_disk(home, put_set, tmp_path, name):
    bomb = bytes(1 << 24)
    packed = {"all.zip": zipped, "all.tar.gz": tarred}.get(name, lambda _: gzip.compress(bomb))
    fill(tmp_path, {name: packed({"a.txt": bomb})})
    put_set("tiny", entry("a.txt", b"one\n", (tmp_path / name).as_uri()))
    with pytest.raises(UserError, match=r"a\.txt is larger than it should be"):
        catalogue.get("tiny")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("name", ["all.zip", "all.tar.gz"])
def test_half_an_archive_is_an_error(home, put_set, tmp_path, name):
    packed = {"all.zip": zipped, "all.tar.gz": tarred}[name]({"a.txt": os.urandom(5000)})
    fill(tmp_path, {name: packed[: len(packed) // 2]})
    put_set("tiny", entry("a.txt", bytes(5000), (tmp_path / name).as_uri()))
    with pytest.raises(UserError, match="is not a whole archive"):
        catalogue.get("tiny")


def test_a_place_that_cannot_be_written_is_named(put_set, tmp_path):
    put_set("tiny", entry("a.txt", b"one\n"))
    fill(tmp_path, {"file": b"", "a.txt": b"one\n"})
    with pytest.raises(UserError, match=str(tmp_path / "file")):
        catalogue.get("tiny", tmp_path, to=tmp_path / "file" / "deeper")


def test_an_interrupted_download_is_never_visible(home, put_set, server):
    """Stopped in the middle, as by Ctrl-C: the next attempt starts afresh and succeeds."""
    address, public, _ = server
    fill(public, {"a.txt": b"one\n", "b.txt": b"two\n"})
    put_set(
        "tiny",
        *(entry(n, d, f"{address}/{n}") for n, d in {"a.txt": b"one\n", "b.txt": b"two\n"}.items()),
    )

    def stop(name: str, done: int, total: int) -> None:
        assert not (home / "tiny").exists()
        if name == "b.txt":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalogue.get("tiny", progress=stop)
    assert list(home.iterdir()) == []
    assert len(list(catalogue.get("tiny").iterdir())) == 2


# Sets that are made


def test_imdb_is_made_from_the_archive(home, monkeypatch, tmp_path):
    """Reviews in the order of their numbers, bad before good; ten comes after two."""
    files = {
        "train/neg/10_1": "ten", "train/neg/2_3": "two\tand\nmore", "train/pos/0_9": "zéro",
        "test/neg/0_2": "no", "test/pos/1_8": "yes", "train/unsup/0_0": "open",
    }  # fmt: skip
    packed = tarred({f"aclImdb/{name}.txt": text.encode() for name, text in files.items()} | {
        "aclImdb/README": b"about", "aclImdb/train/urls_neg.txt": b"http://",
    })  # fmt: skip
    fill(tmp_path / "copy", {"aclImdb_v1.tar.gz": packed})
    with pytest.raises(UserError, match=f"sha256 is {sha(packed)}, expected c40f74"):
        catalogue.get("imdb", tmp_path / "copy")
    monkeypatch.setattr(sets, "IMDB_SHA256", sha(packed))
    folder = catalogue.get("imdb", tmp_path / "copy")
    text = {p.name: gzip.decompress(p.read_bytes()).decode() for p in folder.iterdir()}
    assert text == {
        "train.tsv.gz": "0\ttwo and more\n0\tten\n1\tzéro\n",
        "test.tsv.gz": "0\tno\n1\tyes\n",
        "unsup.txt.gz": "open\n",
    }
    assert catalogue.find("imdb") == folder


@pytest.mark.parametrize("languages", ["en-de", "en-fr"])
def test_the_phrasebook_is_unpacked_here(languages, home):
    folder = catalogue.get(f"phrasebook-{languages}")
    assert folder == catalogue.find(f"phrasebook-{languages}") == home / f"phrasebook-{languages}"
    lines = {p.name: p.read_text(encoding="utf-8").split("\n")[:-1] for p in folder.iterdir()}
    sizes = {"train.tsv": 20_000, "validation.tsv": 1_000, "test.tsv": 1_000}
    assert {name: len(each) for name, each in lines.items()} == sizes
    assert {line.count("\t") for each in lines.values() for line in each} == {1}
    assert not set(lines["train.tsv"]) & set(lines["test.tsv"])


# Asking


def test_an_unknown_name_gets_the_nearest_and_the_list():
    for ask in (catalogue.get, catalogue.find, catalogue.describe, catalogue.sample):
        with pytest.raises(UserError, match=r"mutli30k; did you mean multi30k\?.*timemachine"):
            ask("mutli30k")


def test_a_set_that_is_not_there_comes_with_its_command(home):
    with pytest.raises(UserError, match=r"`regard data get ett`.*`regard data get ett --from DIR`"):
        catalogue.find("ett")


def test_describe_says_what_is_there(home, put_set, tmp_path):
    put_set("tiny", entry("a.txt", b"one\n", "https://example.org/a.txt"), tree("wav/", WAVS))
    about = catalogue.describe("tiny")
    assert about["licence"] == "none" and about["source"] == "https://example.org/home"
    assert about["present"] is False and about["folder"] == str(home / "tiny")
    assert about["files"][0] == {
        "name": "a.txt", "size": 4, "url": "https://example.org/a.txt", "present": False,
    }  # fmt: skip
    fill(home / "tiny", {"a.txt": b"one\n", "wav/a.wav": WAVS["a.wav"]})
    about = catalogue.describe("tiny")
    assert [f["present"] for f in about["files"]] == [True, False] and not about["present"]
    fill(home / "tiny", {"wav/b.wav": WAVS["b.wav"]})
    assert catalogue.describe("tiny")["present"] is True


def test_sample_shows_the_first_lines_of_texts_only(home, put_set, tmp_path):
    files = {
        "a.txt": b"eins\nzwei\ndrei\n",
        "b.gz": gzip.compress(b"one\n"),
        "c": b"\0\xff",
    }
    put_set("tiny", entry("a.txt", files["a.txt"]), entry("b.gz", b"one\n"), entry("c", files["c"]))
    catalogue.get("tiny", fill(tmp_path / "copy", files))
    assert catalogue.sample("tiny", 2) == {"a.txt": ["eins", "zwei"], "b.gz": ["one"]}


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/regard/data"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/regard/data"),
        ("darwin", {}, "home/Library/Caches/regard/data"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/regard/data"),
        ("win32", {"REGARD_DATA": "~/mine"}, "home/mine"),
    ],
)
def test_home_is_where_the_platform_keeps_caches(
    monkeypatch, tmp_path, platform, variables, expected
):
    for name in ("REGARD_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "platform", platform)
    assert catalogue.home() == tmp_path / expected


def test_how_far_a_download_is_can_be_seen(monkeypatch: pytest.MonkeyPatch):
    seen = io.StringIO()
    monkeypatch.setattr(display, "errors", Console(file=seen, force_terminal=True, width=100))
    with display.waiting("getting [bold]words") as far:
        far("words.gz", 1_500_000, 6_000_000)
        far("more.gz", 2_000_000, 0)
        time.sleep(0.3)  # the line is drawn several times a second
    assert "getting [bold]words … more.gz: 2.0 MB" in seen.getvalue()


def test_a_set_can_be_made_from_two_others(home: Path, monkeypatch: pytest.MonkeyPatch):
    def made(letter: str, *origins: str) -> Dataset:
        def make(folder: Path, fetch: Callable[[str], Path]) -> None:
            parts = [fetch(f"{origin}.txt").read_text() for origin in origins]
            (folder / f"{letter}.txt").write_text("".join([*parts, letter]))

        file = File(f"{letter}.txt", 0, "", "")
        about: dict[str, Any] = {"what": "w", "licence": "l", "source": "https://example.org"}
        return Dataset(**about, make=make, origins=origins, files=(file,))

    both = {"a": made("a"), "b": made("b"), "c": made("c", "a", "b")}
    monkeypatch.setattr(catalogue, "known", lambda: both)
    assert (catalogue.get("c") / "c.txt").read_text() == "abc"
    assert {each.name for each in home.iterdir()} == {"a", "b", "c"}


# The table

MADE = {
    "phrasebook-en-de",
    "phrasebook-en-fr",
    "pronunciation",
    "spelling-correction",
    "ud-ewt-1000",
    "fsdd-digits",
    "fsdd-strings",
    "speech",
    "tones",
    "scenes",
    "scenes-18000",
    "flickr8k-captions",
}


def test_the_table_is_well_formed():
    assert sets.MAKE.keys() <= {*catalogue.names()}
    for name, dataset in sets.known().items():
        assert dataset.what and dataset.licence and dataset.source, name
        assert dataset.files, name
        for file in dataset.files:
            made = name in MADE
            assert made or (len(file.sha256) == 64 and file.size > 0), file
            assert not file.url or file.url.startswith("https://"), file
            assert not Path(file.name).is_absolute() and ".." not in file.name
            assert file.url or dataset.make or dataset.note, f"{name}: where is {file.name}?"


@pytest.mark.parametrize("name", [n for n in catalogue.names() if n not in MADE])
def test_the_checksums_are_those_of_the_shared_data(name: str, shared_data: Callable[[str], Path]):
    """Files of up to 5 MB are hashed; of larger ones the size is compared."""
    folder = shared_data(name)
    for file in sets.known()[name].files:
        path = folder / file.name
        assert path.exists(), path
        if file.size <= SMALL:
            assert archives.digest(path) == file.sha256, path
        elif path.suffix == ".gz":
            assert int.from_bytes(path.read_bytes()[-4:], "little") == file.size, path
        else:
            files = path.iterdir() if path.is_dir() else [path]
            assert sum(each.stat().st_size for each in files) == file.size, path


def test_a_real_set_is_taken_from_the_shared_data(home, shared_data: Callable[[str], Path]):
    folder = catalogue.get("timemachine", shared_data("timemachine").parent)
    assert catalogue.sample("timemachine", 1) == {
        "timemachine.txt": ["The Time Machine, by H. G. Wells [1898]"]
    }
    assert catalogue.find("timemachine") == folder
