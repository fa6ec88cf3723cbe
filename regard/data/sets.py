"""Which data sets there are: what each is, whose it is, where it is, how it is checked."""

import gzip
import lzma
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data.archives import digest, members
from regard.errors import UserError

Fetch = Callable[[str], Path]
"""A public address → a local file with what is there."""
Make = Callable[[Path, Fetch], None]
"""Writes the files of a set into a folder."""


@dataclass(frozen=True)
class File:
    """A file of a set, or with a slash at the end of its name a folder of many."""

    name: str
    size: int
    """Bytes: of a folder their sum, of .gz those of the content; 0 if it is made on the spot."""
    sha256: str
    """Of the same bytes, as compressed ones differ between compressors; of a folder, that of
    its lines "name sha256"."""
    url: str
    """The file itself, the same in .gz, or an archive that holds it; empty if there is none."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A set: the files are in the manifest below, under the same name."""

    what: str
    licence: str
    source: str
    """The public home."""
    note: str = ""
    """What else to know: how this copy differs from the one at home."""
    make: Make | None = None
    """Makes the files where the public ones have another form, or where there are none."""
    origins: tuple[str, ...] = ()
    """The sets whose files this one is made from; `make` fetches them by their names."""
    files: tuple[File, ...] = ()


IMDB = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
IMDB_PARTS = {
    "train.tsv.gz": {"train/neg": b"0\t", "train/pos": b"1\t"},
    "test.tsv.gz": {"test/neg": b"0\t", "test/pos": b"1\t"},
    "unsup.txt.gz": {"train/unsup": b""},
}


def _imdb(folder: Path, fetch: Fetch) -> None:
    """One line per review, in the order of their numbers: label, tab, text; 0 bad, 1 good."""
    archive = fetch(IMDB)
    if (found := digest(archive, unpack=False)) != IMDB_SHA256:
        raise UserError(f"{IMDB}: the sha256 is {found}, expected {IMDB_SHA256}")
    reviews: dict[str, dict[int, bytes]] = defaultdict(dict)
    with members(archive) as packed:
        for member, stream in packed:
            number = member.stem.partition("_")[0]
            if member.suffix == ".txt" and number.isdecimal():
                reviews["/".join(member.parts[1:3])][int(number)] = stream.read()
    for name, kinds in IMDB_PARTS.items():
        with gzip.open(folder / name, "wb") as out:
            for kind, label in kinds.items():
                for _, text in sorted(reviews[kind].items()):
                    out.write(label + re.sub(rb"[\t\r\n]", b" ", text) + b"\n")


def _phrasebook(languages: Literal["en-de", "en-fr"]) -> Make:
    def make(folder: Path, fetch: Fetch) -> None:
        packed = Path(__file__).with_name(f"phrasebook-{languages}.tsv.xz")
        parts: dict[str, list[str]] = defaultdict(list)
        for line in lzma.decompress(packed.read_bytes()).decode().splitlines(keepends=True):
            part, _, pair = line.partition("\t")
            parts[part].append(pair)
        for part, pairs in parts.items():
            text = "".join(pairs)
            (folder / f"{part}.tsv").write_text(text, encoding="utf-8", newline="\n")

    return make


def _derived(which: Literal["pronunciation", "spelling_correction"]) -> Make:
    def make(folder: Path, fetch: Fetch) -> None:
        from regard.data import derived

        getattr(derived, which)(folder, fetch)

    return make


DESCRIPTIONS = {
    "multi30k": Dataset(
        what="English and German image captions, parallel: 29,000 / 1,014 / 1,000 lines; raw, "
        "and lower-cased and tokenised as published scores have it",
        licence="research and education, non-commercial",
        source="https://github.com/multi30k/dataset",
    ),
    "timemachine": Dataset(
        what="The Time Machine by H. G. Wells: 3,221 lines",
        licence="public domain",
        source="https://www.gutenberg.org/ebooks/35",
    ),
    "imdb": Dataset(
        what="film reviews, bad (0) or good (1): 25,000 / 25,000, and 50,000 without a label",
        licence="research",
        source="https://ai.stanford.edu/~amaas/data/sentiment/",
        note="Downloaded, it is made from the archive. The copy whose checksums are here has, on "
        "at least eight lines, reviews of an app instead (train 3, 10, 12501, 12508; test 12501, "
        "12503, 12508, 12510).",
        make=_imdb,
    ),
    "ud-ewt": Dataset(
        what="English web text with parts of speech: 12,544 / 2,001 / 2,077 sentences (UD 2.16)",
        licence="CC BY-SA 4.0",
        source="https://github.com/UniversalDependencies/UD_English-EWT",
    ),
    "cmudict": Dataset(
        what="English words and their pronunciations: 135,166 entries",
        licence="BSD-like",
        source="https://github.com/cmusphinx/cmudict",
    ),
    "spelling": Dataset(
        what="English words ($word) and their misspellings: Birkbeck 36,133, Wikipedia 2,455, "
        "Aspell 531, Holbrook 1,791 and its running text",
        licence="research",
        source="https://titan.dcs.bbk.ac.uk/~ROGER/corpora.html",
    ),
    "pronunciation": Dataset(
        what="letters and phonemes of English words: 114,608 / 6,343 / 12,584 lines",
        licence="BSD-like",
        source="https://github.com/cmusphinx/cmudict",
        note="Made from cmudict, without stress. Validation and test have one line for each word, "
        "with “ | ” between its pronunciations.",
        make=_derived("pronunciation"),
        origins=("cmudict",),
    ),
    "spelling-correction": Dataset(
        what="misspellings and the right words: 151,904 / 1,108 / 531 pairs; 124,644 words",
        licence="research",
        source="https://titan.dcs.bbk.ac.uk/~ROGER/corpora.html",
        note="Made from spelling: Birkbeck and Wikipedia with made-up misspellings of their "
        "words to learn from, Aspell, whose pairs are taken out of these, for the test. The words "
        "are those to learn from and those of cmudict.",
        make=_derived("spelling_correction"),
        origins=("spelling", "cmudict"),
    ),
    "tatoeba-deu-eng": Dataset(
        what="everyday sentences, English and German: 169,197 pairs, many of them paraphrases",
        licence="CC BY 2.0 FR",
        source="https://www.manythings.org/anki/",
        note="The public file is replaced now and then; this is deu.txt of 7 April 2018.",
    ),
    "fsdd": Dataset(
        what="spoken English digits: 3,000 recordings at 8 kHz of 6 speakers, named "
        "digit_speaker_index; 0 to 4 are the test",
        licence="CC BY-SA 4.0",
        source="https://github.com/Jakobovski/free-spoken-digit-dataset",
    ),
    "mnist": Dataset(
        what="handwritten digits, 28 by 28: 60,000 / 10,000",
        licence="CC BY-SA 3.0",
        source="http://yann.lecun.com/exdb/mnist/",
    ),
    "flickr8k-1k": Dataset(
        what="1,000 photographs of Flickr8k, made small, with 5 captions each",
        licence="research",
        source="https://hockenmaier.cs.illinois.edu/Framing_Image_Description/KCCA.html",
        note="A part of the public set, with smaller pictures.",
    ),
    "ett": Dataset(
        what="temperature and load of an electricity transformer: 17,420 hours, 7 columns",
        licence="CC BY-ND 4.0",
        source="https://github.com/zhouhaoyi/ETDataset",
    ),
    "protein": Dataset(
        what="11,156 proteins and their secondary structure, 3 classes",
        licence="AFL-3.0",
        source="https://github.com/J-SNACKKB/FLIP",
    ),
    "wordsim": Dataset(
        what="word pairs and how similar people find them (WordSim-353, SimLex-999); analogies",
        licence="research",
        source="https://github.com/piskvorky/gensim",
    ),
    "phrasebook-en-de": Dataset(
        what="made-up English and German sentences: 20,000 / 1,000 / 1,000 pairs",
        licence="Apache-2.0, with names from Unicode CLDR",
        source="phrasebook/ in the project's sources",
        make=_phrasebook("en-de"),
    ),
    "phrasebook-en-fr": Dataset(
        what="made-up English and French sentences: 20,000 / 1,000 / 1,000 pairs",
        licence="Apache-2.0, with names from Unicode CLDR",
        source="phrasebook/ in the project's sources",
        make=_phrasebook("en-fr"),
    ),
}

# [set], then an address (* is the file's name, - is none), then sha256, size, name of its files.
MANIFEST = """
[multi30k]
https://raw.githubusercontent.com/multi30k/dataset/c9be912dc05a3ebf9ae5bb5f7f58c1791cda43ab/data/task1/raw/*.gz
460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6 1801238 train.en
2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72 2110398 train.de
1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227 63297 val.en
660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660 75981 val.de
399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182 62076 test_2016_flickr.en
4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16 70649 test_2016_flickr.de
https://raw.githubusercontent.com/multi30k/dataset/7bee46bc74186b4b6254603143610f730d40bf66/data/task1/tok/*
08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119 1837696 train.lc.norm.tok.en
cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505 2150008 train.lc.norm.tok.de
46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec 64608 val.lc.norm.tok.en
97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00 77273 val.lc.norm.tok.de
5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2 63307 test_2016_flickr.lc.norm.tok.en
c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4 71917 test_2016_flickr.lc.norm.tok.de
[timemachine]
https://d2l-data.s3-accelerate.amazonaws.com/*
8424dbd9532ac81f7e5f0b6add90e6952baea29158309d7d1bf3884f4e12c516 178979 timemachine.txt
[imdb]
-
4a9fb809e89a4a325f44b82dcc155c6de1b9e590cac8e49955657bed9f55b829 33206054 train.tsv.gz
ecee2e546e400b2af862c0100deb4207a00b0aec9b4aeed6dab6079114df340b 32421699 test.tsv.gz
99782175a3703967cb05537657e2cea1d9a49bd3f8e2ffb19a15906fc1330551 66556794 unsup.txt.gz
[ud-ewt]
https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/4c89b5833a70aa5ed3a00bad2f23f57992cc7df8/*
3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b 14203025 en_ewt-ud-train.conllu
531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6 1805545 en_ewt-ud-dev.conllu
e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd 1804515 en_ewt-ud-test.conllu
b3d1b0f4c6ae151f7eb78738f46ebd5ee140f8a7f76501ba26af123140d35ae7 20014 LICENSE.txt
[cmudict]
https://raw.githubusercontent.com/cmusphinx/cmudict/74790861f652b15e4ac49015a90074ad62a27690/*
81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22 3618488 cmudict.dict
ffb588a5e55684723582c7256e1d2f9fadb130011392d9e59237c76e34c2cfd6 382 cmudict.phones
408ccaae803641c6d7b626b6299949320c2dbca96b2220fd3fb17887b023b027 281 cmudict.symbols
bd4ce8e44170a5f9f481310ca85c51de3c4f851a65e679b40e603b143bd3542a 1754 LICENSE
[spelling]
https://titan.dcs.bbk.ac.uk/~ROGER/*
ed7d8c91961a1201632351943571e77af2011cdf45d24304c4d7cad6cf77ea15 368933 missp.dat
061ec33aa12a4aea718a7bb121360812c8348770833e730124af1eecdc2cd380 43848 wikipedia.dat
0198fa5c343f82f0541ae39a0116b534e14bfadc54144377cadee2bd6d288988 9326 aspell.dat
e2f0f0564954d049a1f663f3c7e72899382570a4fe575015169b1117de85ae3c 24597 holbrook-missp.dat
5d926496834461b15294181cefaa859444c85e19c65f4ba009374d28cbcfc37c 186633 holbrook-tagged.dat
[pronunciation]
-
- 0 train.tsv
- 0 validation.tsv
- 0 test.tsv
[spelling-correction]
-
- 0 train.tsv
- 0 validation.tsv
- 0 test.tsv
- 0 words.txt
[tatoeba-deu-eng]
-
7a363bf8587f1a9f895583574c7195071b02f9dfdf4d0d6605947c6b5e0c25a8 12266002 deu-eng.tsv.gz
3bf2fb9d1ee5082aa4888a06056113f6ff4c20131ed7e91eee437f3e90514197 1441 ABOUT.txt
[fsdd]
https://github.com/Jakobovski/free-spoken-digit-dataset/archive/refs/tags/v1.0.10.tar.gz
dbd573d7cafe79c4b49f65718115e1304e24e067fa39eff18a660dc6cb9c360f 21128848 recordings/
[mnist]
https://ossci-datasets.s3.amazonaws.com/mnist/*
ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db 47040016 train-images-idx3-ubyte.gz
65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 60008 train-labels-idx1-ubyte.gz
0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 7840016 t10k-images-idx3-ubyte.gz
ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 10008 t10k-labels-idx1-ubyte.gz
[flickr8k-1k]
-
476e72cbb22108b575e5c550138387dcf2b116cb4676e41e3c23aa93c249b123 17901206 images/
2e68c3e276f88a5193bf14b6dfac49db12a449fb7f988405875d9d16fed7d608 413426 captions.txt
[ett]
https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/*
f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066 2589657 ETTh1.csv
[protein]
https://github.com/J-SNACKKB/FLIP/raw/main/splits/secondary_structure/splits.zip
cc69cb36650161fa08874c7a3a2ceceb9c3bbab1b6394cb875647c1b8b4a4b03 2945498 sequences.fasta
d74173c6ecd35339e9455565b45160f7285d401a1fc05e814af67bcb7bb83ad1 3245266 sampled.fasta
6ffafb87ab0d40781103594d3a8fa202d1db741fd49cc00fe6220797bf55897f 2945498 mask.fasta
[wordsim]
https://raw.githubusercontent.com/piskvorky/gensim/4.3.3/gensim/test/test_data/*
f92a022fc2537793a15bc3a8c162ebcd74990e033a228bb6388cb71e4c0b1e1d 7186 wordsim353.tsv
d5e0501971478a511430ee880bd0121e94ac701ba86d90544d83e6d2ba3db05d 18126 simlex999.txt
https://raw.githubusercontent.com/tmikolov/word2vec/20c129af10659f7c50e86e3be406df663beff438/*
8c29b3332afc46f3fb8be04cb5297bf96f39aa7131272dff57869b4485b22a36 603955 questions-words.txt
[phrasebook-en-de]
-
- 0 train.tsv
- 0 validation.tsv
- 0 test.tsv
[phrasebook-en-fr]
-
- 0 train.tsv
- 0 validation.tsv
- 0 test.tsv
"""  # noqa: E501


def _parse(manifest: str) -> dict[str, tuple[File, ...]]:
    files: dict[str, list[File]] = {}
    name = url = ""
    for line in manifest.split("\n"):
        match line.split():
            case [one] if one.startswith("["):
                name = one.strip("[]")
            case [one]:
                url = one.removeprefix("-")
            case [sha256, size, path]:
                file = File(path, int(size), sha256.removeprefix("-"), url.replace("*", path))
                files.setdefault(name, []).append(file)
    return {name: tuple(each) for name, each in files.items()}


CATALOGUE = {
    name: replace(DESCRIPTIONS[name], files=files) for name, files in _parse(MANIFEST).items()
}
