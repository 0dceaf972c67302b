"""TensorFlow checkpoints: read whole or refused by name, written as TensorFlow writes them."""

from __future__ import annotations

import hashlib
import io
import logging
import shutil
import struct
import subprocess
import sys
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from conftest import shared

from model import tf_checkpoint_writer, tf_files, tf_table
from model.crc32c import _BYTES, crc32c, masked_crc32c
from model.tf_checkpoint import TensorFlowCheckpoint
from model.tf_checkpoint_writer import write_tf_checkpoint
from model.tf_table import CheckpointError, read_table, write_table

FIXTURES = Path(__file__).parent / "fixtures"
REFERENCE = FIXTURES / "reference"
GOOGLE = REFERENCE / "google_g1"
SMALL = REFERENCE / "finetuned_classifier"
TYPES = FIXTURES / "tf_types"  # one variable of each type, saved by TensorFlow 2.21
NAME = "model.ckpt-best"
INDEX, DATA = f"{NAME}.index", f"{NAME}.data-00000-of-00001"
SHARED = ["google_g1", "google_g1_hub", "google_g1_stale", "google_g2i2", "google_g4_unshared",
          "finetuned_race", "finetuned_squad_v1", "bright_preln"]


def copy(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755)
    return target


def same(found, wanted) -> bool:
    return found.keys() == wanted.keys() and all(
        np.array_equal(found[n], wanted[n]) and found[n].dtype == wanted[n].dtype for n in wanted)


# ---- checksums -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "crc"), [  # RFC 3720, appendix B.4
    (b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E), (bytes(range(31, -1, -1)), 0x113FDB5C)])
def test_known_checksums(data, crc):
    assert crc32c(data) == crc


def test_wide_steps_equal_single_bytes():
    data = np.random.default_rng(0).integers(0, 256, 270_000, dtype=np.uint8).tobytes()
    state, lengths = 0xFFFFFFFF, set()
    for width in (256, 2048, 16384):  # around every place where the way of working changes
        lengths |= {8 * width + extra for extra in (-5, -1, 0, 1, 3, 4, 1027)} | {12 * width}
    for at, byte in enumerate(data):
        if at in lengths:
            assert crc32c(data[:at]) == state ^ 0xFFFFFFFF, at
            lengths.discard(at)
        state = state >> 8 ^ _BYTES[(state ^ byte) & 0xFF]
    assert not lengths


def test_checksum_of_arrays_and_empty_ones():
    array = np.arange(6, dtype="<f4").reshape(2, 3)
    assert crc32c(array) == crc32c(array.tobytes())
    assert crc32c(np.zeros((0, 3), "<f4")) == 0


# ---- reading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["v2", "v1"])
def test_every_type(file):
    wanted = {n.replace("|", "/"): a for n, a in np.load(TYPES / "expected.npz").items()}
    found = dict(TensorFlowCheckpoint(TYPES / file))
    assert len(found) == {"v2": 10, "v1": 9}[file]  # V1 has no bfloat16
    assert same(found, {n: wanted[n] for n in found})
    assert found["t/float32"].dtype == np.float32 and found["t/bool"].dtype == np.bool_


def test_what_holds_no_weights_is_refused_only_when_asked_for():
    checkpoint = TensorFlowCheckpoint(TYPES / "part")
    assert set(checkpoint) == {"o", "p/w", "q"}
    assert checkpoint["q"].shape == (2,)
    with pytest.raises(CheckpointError, match=r"part, tensor p/w: saved in slices"):
        checkpoint["p/w"]
    with pytest.raises(CheckpointError, match=r"part, tensor o: of TensorFlow type 7"):
        checkpoint["o"]


@pytest.mark.parametrize("folder", ["google_g1_sharded", "google_g1_v1format", "google_g1_stale"])
def test_same_weights_in_other_clothes(folder):
    assert same(dict(TensorFlowCheckpoint(shared(f"reference/{folder}"))),
                dict(TensorFlowCheckpoint(GOOGLE)))


def test_nothing_is_read_before_it_is_asked_for(tmp_path):
    prefix = tmp_path / "large"
    write_tf_checkpoint(prefix, {"a": np.ones(3, "f4"), "b": np.zeros(5_000_000, "f4")})
    tracemalloc.start()
    checkpoint = TensorFlowCheckpoint(prefix)
    assert checkpoint.shape("b") == (5_000_000,) and checkpoint["a"].sum() == 3
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    checkpoint["b"]  # looked at in place, not copied
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


# ---- finding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", NAME, INDEX, DATA])
def test_row_2_folder_prefix_and_files(path):
    checkpoint = TensorFlowCheckpoint(SMALL / path)
    assert str(checkpoint) == str(SMALL / NAME) and SMALL in checkpoint.directories


def test_row_2_v1_file_and_hub_folder():
    assert len(TensorFlowCheckpoint(shared("reference/google_g1_v1format/model.ckpt-1234"))) == 97
    hub = TensorFlowCheckpoint(shared("reference/google_g1_hub"))
    assert all(name.startswith("module/") for name in hub)
    assert shared("reference/google_g1_hub/assets") in hub.directories


def test_row_2_of_several_the_newest_is_taken_and_said(tmp_path, caplog):
    for step in (900, 1000, 20):
        write_tf_checkpoint(tmp_path / f"model.ckpt-{step}", {"step": np.array(step)})
    assert TensorFlowCheckpoint(tmp_path)["step"] == 20  # the `checkpoint` file names the last
    (tmp_path / "checkpoint").unlink()
    with caplog.at_level(logging.WARNING):
        assert TensorFlowCheckpoint(tmp_path)["step"] == 1000
    assert "taking the newest, model.ckpt-1000" in caplog.text and "model.ckpt-20" in caplog.text


def test_row_2_checkpoint_file_that_names_what_is_gone(tmp_path, caplog):
    write_tf_checkpoint(tmp_path / "model.ckpt-1", {"step": np.array(1)})
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-7"\n')
    assert TensorFlowCheckpoint(tmp_path)["step"] == 1
    assert "/elsewhere/model.ckpt-7" in caplog.text


def test_a_folder_in_a_folder_and_nothing_at_all(tmp_path):
    copy(SMALL, tmp_path / "outer" / "inner")
    assert len(TensorFlowCheckpoint(tmp_path / "outer")) == 27
    (tmp_path / "notes.txt").write_text("no checkpoint")
    with pytest.raises(CheckpointError, match=r"notes.txt: not a TensorFlow checkpoint"):
        TensorFlowCheckpoint(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError, match=r"model.ckpt-9: no such checkpoint.*notes.txt"):
        TensorFlowCheckpoint(tmp_path / "model.ckpt-9")


# ---- archives ------------------------------------------------------------------------------------


def archive(path: Path, *members: tuple[str, bytes | str]) -> Path:
    """A .tar.gz of (name, content) or of (name, link target as str)."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                tar.addfile(member)
            else:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return path


def members(folder: Path) -> list[tuple[str, bytes]]:
    return [(f"albert/{p.name}", p.read_bytes()) for p in sorted(folder.iterdir())]


def test_row_2_archive(tmp_path):
    path = archive(tmp_path / "albert.tar.gz", ("albert/x.meta", b"graph"), *members(SMALL))
    checkpoint = TensorFlowCheckpoint(path)
    assert str(checkpoint) == f"{path}: albert/{NAME}"
    assert same(dict(checkpoint), dict(TensorFlowCheckpoint(SMALL)))
    place = checkpoint.directories[0]
    assert (place / "albert_config.json").is_file() and not (place / "x.meta").exists()
    del checkpoint
    assert not place.exists()  # goes with the last user


@pytest.mark.parametrize("name", ["../outside.index", "/tmp/outside.index", "a/../../outside"])
def test_archive_that_points_out_of_itself(tmp_path, name):
    path = archive(tmp_path / "x.tar.gz", (name, b"evil"), *members(SMALL))
    with pytest.raises(CheckpointError, match="points out of the archive; refused"):
        TensorFlowCheckpoint(path)
    assert [p.name for p in tmp_path.iterdir()] == ["x.tar.gz"]


def test_archive_with_links_and_too_much(tmp_path, monkeypatch):
    path = archive(tmp_path / "x.tar.gz", ("albert/evil", "/etc/passwd"), *members(SMALL))
    assert not (TensorFlowCheckpoint(path).directories[0] / "evil").exists()
    monkeypatch.setattr(tf_files, "MAX_ARCHIVE_BYTES", 50_000)
    with pytest.raises(CheckpointError, match="x.tar.gz: more than 50000 bytes .* refused"):
        TensorFlowCheckpoint(path)
    empty = archive(tmp_path / "empty.tar.gz", ("readme", b""))
    with pytest.raises(CheckpointError, match="empty.tar.gz: no TensorFlow checkpoint"):
        TensorFlowCheckpoint(empty)


# ---- row 5: damage -------------------------------------------------------------------------------


class Damage:
    """Writes damaged copies of one file of a checkpoint, and says what reading them gives."""

    def __init__(self, opened: Path, file: Path) -> None:
        self.opened, self.file, self.content = opened, file, file.read_bytes()
        self.wanted = dict(TensorFlowCheckpoint(opened))

    def outcome(self, content: bytes) -> str:
        """"error" (its message names the file), or "same"; anything else fails the test."""
        self.file.unlink()  # a mapped file must not change under its readers
        self.file.write_bytes(content)
        try:
            found = dict(TensorFlowCheckpoint(self.opened))
        except CheckpointError as error:
            assert str(self.opened) in str(error)
            return "error"
        assert same(found, self.wanted), "silently other values"
        return "same"

    def flipped(self, at: int, bits: int) -> str:
        content = bytearray(self.content)
        content[at] ^= bits
        return self.outcome(bytes(content))


@pytest.fixture
def index(tmp_path) -> Damage:
    folder = copy(SMALL, tmp_path / "small")
    return Damage(folder / NAME, folder / INDEX)


@pytest.fixture
def data(tmp_path) -> Damage:
    folder = copy(SMALL, tmp_path / "small")
    return Damage(folder / NAME, folder / DATA)


def test_row_5_every_byte_of_an_index(index):
    outcomes = [index.flipped(at, bits) for at in range(len(index.content)) for bits in (1, 0xFF)]
    # Harmless: the footer's padding, and its pointer to a block that nobody reads.
    assert outcomes.count("same") < 100 and outcomes[:2000].count("same") == 0


def test_row_5_every_length_of_an_index(index):
    for length in range(len(index.content)):
        assert index.outcome(index.content[:length]) == "error"


def test_row_5_data(data):
    entries = TensorFlowCheckpoint(SMALL).entries
    for name, entry in entries.items():
        for at in (entry.offset, entry.offset + entry.size // 2, entry.offset + entry.size - 1):
            assert data.flipped(at, 0x10) == "error"
            with pytest.raises(CheckpointError, match=f"{NAME}, tensor {name}: does not match"):
                TensorFlowCheckpoint(data.opened)[name]
    for length in range(0, len(data.content), 997):
        assert data.outcome(data.content[:length]) == "error"


def test_row_5_cut_off_data_is_told_on_opening(data):
    data.outcome(data.content[:-1])
    with pytest.raises(CheckpointError, match=rf"tensor output_weights: ends at byte 53004 of "
                                              rf"{DATA}, which has 53003; a download"):
        TensorFlowCheckpoint(data.opened)
    data.file.unlink()
    with pytest.raises(CheckpointError, match=rf"needs {DATA}, which is not there"):
        TensorFlowCheckpoint(data.opened)


def test_row_5_v1(tmp_path):
    file = tmp_path / "v1"
    shutil.copyfile(TYPES / "v1", file)
    damage = Damage(file, file)
    outcomes = [damage.flipped(at, 0xFF) for at in range(len(damage.content))]
    assert outcomes.count("same") < 50 and "same" not in outcomes[:1000]
    for length in range(len(damage.content)):
        assert damage.outcome(damage.content[:length]) == "error"


def test_row_5_v1_names_the_tensors(tmp_path):
    content = bytearray(shared("reference/google_g1_v1format/model.ckpt-1234").read_bytes())
    at = content.rindex(np.asarray(TensorFlowCheckpoint(GOOGLE)["cls/seq_relationship/"
                                                                "output_weights"]).tobytes())
    content[at] ^= 1
    (tmp_path / "model.ckpt").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model.ckpt: the block .*\(tensors: "):
        TensorFlowCheckpoint(tmp_path / "model.ckpt")


def test_row_5_archives(tmp_path):
    path = archive(tmp_path / "x.tar.gz", *members(SMALL))
    damage = Damage(path, path)
    size = len(damage.content)
    for at in [*range(0, 60), *range(60, size, 1777), *range(size - 9, size)]:
        damage.flipped(at, 0x55)
    assert damage.flipped(size // 2, 0x55) == "error"
    assert damage.flipped(size - 6, 0x55) == "error"  # gzip's own checksum, after the last file
    for length in range(0, size, 1777):
        assert damage.outcome(damage.content[:length]) == "error"


def test_entries_with_a_right_checksum_and_wrong_content(index):
    entries = [(k, bytes(v)) for k, v in read_table("x", memoryview(index.content))]
    assert index.outcome(write_table(entries)) == "same"
    for number, (key, value) in enumerate(entries):
        for at in range(len(value)):
            for changed in (value[:at], value[:at] + bytes([value[at] ^ 0x84]) + value[at + 1:]):
                forged = [*entries[:number], (key, changed), *entries[number + 1:]]
                index.file.unlink()
                index.file.write_bytes(write_table(forged))
                try:  # an integer type of the same width may come out, never another exception
                    dict(TensorFlowCheckpoint(index.opened))
                except CheckpointError as error:
                    assert str(index.opened) in str(error)


def saved_slice(name: bytes, numbers: bytes) -> tuple[bytes, bytes]:
    """An entry of a V1 table: SavedTensorSlices, in it SavedSlice, in it TensorProto."""
    field = tf_table.write_field
    return b"\0" + name + b"\0\1", field(2, field(1, name) + field(3, numbers))


@pytest.mark.parametrize(("numbers", "message"), [
    (tf_table.write_field(7, b"\1\2\3"), None),
    (tf_table.write_field(7, b"\1\2"), r"tensor a: 2 numbers for the shape \(3,\)"),
    (tf_table.write_field(7, b"\1\2\3\4"), "tensor a: 4 numbers for the shape"),
    (tf_table.write_field(5, b"\1\2\3"), "tensor a: 0 numbers for the shape"),
    (tf_table.write_field(7, b"\1\2" + b"\xff" * 9 + b"\x7f"), "tensor a: damaged .* 64 bits"),
    (tf_table.write_field(7, b"\1\2\x83"), "tensor a: damaged"),
    (tf_table.write_field(7, 1), "tensor a: 1 numbers"),
])
def test_v1_numbers_that_do_not_fit(tmp_path, numbers, message):
    field = tf_table.write_field
    meta = field(1, b"a") + field(2, field(2, field(1, 3))) + field(3, 3) + field(4, b"")
    file = tmp_path / "v1"
    file.write_bytes(write_table([(b"", field(1, field(1, meta))), saved_slice(b"a", numbers)]))
    if message is None:
        assert TensorFlowCheckpoint(file)["a"].tolist() == [1, 2, 3]
        return
    with pytest.raises(CheckpointError, match=f"v1, {message}"):
        TensorFlowCheckpoint(file)["a"]


@pytest.mark.parametrize("shape", [(2**41,), (2**20, 2**20, 2**20), (1,) * 9, (2**63,)])
def test_headers_are_not_trusted_with_memory(tmp_path, shape):
    prefix = tmp_path / "x"
    write_tf_checkpoint(prefix, {"a": np.ones(4, "f4")})
    index = Path(f"{prefix}.index")
    entries = [(k, bytes(v)) for k, v in read_table("x", memoryview(index.read_bytes()))]
    dims = b"".join(tf_table.write_field(2, tf_table.write_field(1, n)) for n in shape)
    size = tf_table.write_field(5, 2**42)
    entries[1] = (b"a", tf_table.write_field(1, 1) + tf_table.write_field(2, dims) + size)
    index.write_bytes(write_table(entries))
    with pytest.raises(CheckpointError, match=r"x\.index: damaged entry b'a' \(impossible shape"):
        TensorFlowCheckpoint(prefix)["a"]


def test_compressed_blocks_are_refused(index):
    content = bytearray(index.content)
    empty_block = b"\0\0\0\0\1\0\0\0\0"  # of metadata: no entry, one restart point, a plain block
    size = content.index(empty_block + struct.pack("<I", masked_crc32c(empty_block))) - 5
    content[size] = 1
    content[size + 1:size + 5] = struct.pack("<I", masked_crc32c(bytes(content[:size + 1])))
    index.file.unlink()
    index.file.write_bytes(content)
    with pytest.raises(CheckpointError, match="is compressed"):
        TensorFlowCheckpoint(index.opened)


# ---- writing -------------------------------------------------------------------------------------


def assert_same_bytes(source: TensorFlowCheckpoint, folder: Path) -> None:
    original = source.files.path
    write_tf_checkpoint(folder / original.name, dict(source))
    for ending in (".index", ".data-00000-of-00001"):
        found = (folder / (original.name + ending)).read_bytes()
        assert found == Path(f"{original}{ending}").read_bytes(), ending


@pytest.mark.parametrize("folder", ["google_g1", "bright_postln", "finetuned_squad_v2"])
def test_written_as_tensorflow_writes(tmp_path, folder):
    assert_same_bytes(TensorFlowCheckpoint(REFERENCE / folder), tmp_path)
    listing = (REFERENCE / folder / "checkpoint").read_bytes()
    assert (tmp_path / "checkpoint").read_bytes() == listing


@pytest.mark.parametrize("folder", SHARED)
def test_the_rest_written_as_tensorflow_writes(tmp_path, folder):
    assert_same_bytes(TensorFlowCheckpoint(shared(f"reference/{folder}")), tmp_path)


def test_many_blocks_and_odd_shapes(tmp_path, monkeypatch):
    monkeypatch.setattr(tf_table, "BLOCK_SIZE", 300)
    tensors = {f"module_{i // 7}/variable_{i}/kernel": np.full((i % 3, 2), i, "f4")
               for i in range(300)}
    tensors |= {"scalar": np.array(7, "i8"), "ÿ/é": np.ones(1, "f2"), "a" * 1000: np.ones((1,) * 8)}
    write_tf_checkpoint(tmp_path / "x", tensors)
    assert same(dict(TensorFlowCheckpoint(tmp_path)), tensors)


def test_an_index_of_several_blocks_is_tensorflows(tmp_path):
    tensors = {hashlib.sha1(f"a{i}".encode()).hexdigest() + "/kernel": np.full(2, i, "f4")
               for i in range(9000)}
    write_tf_checkpoint(tmp_path / "x", tensors)
    index = (tmp_path / "x.index").read_bytes()  # TensorFlow 2.21 wrote the file of this digest
    assert hashlib.sha256(index).hexdigest() == (
        "38e856fb2efea8b4771e75aeae1017df81a3505fcedcce3628a1fb76b9466d1e")
    assert same(dict(TensorFlowCheckpoint(tmp_path)), tensors)


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(CheckpointError, match=r"cannot write name \(<U1\).*float32"):
        write_tf_checkpoint(tmp_path / "x", {"good": np.ones(2), "name": np.array("a")})
    assert not list(tmp_path.iterdir())


def test_a_crash_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    write_tf_checkpoint(tmp_path / "x", {"a": np.array(1)})
    monkeypatch.setattr(tf_checkpoint_writer, "write_table", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_tf_checkpoint(tmp_path / "x", {"a": np.array(2)})
    assert TensorFlowCheckpoint(tmp_path)["a"] == 1


@pytest.mark.slow
def test_tensorflow_restores_what_is_written(tmp_path):
    pytest.importorskip("tensorflow")  # not a requirement; TensorFlow 2.21 was used
    tensors = {f"v/{dtype}": np.arange(6).reshape(2, 3).astype(dtype)
               for dtype in ("f4", "f8", "i4", "i8", "f2", "u1", "i1")}
    tensors |= {f"many/with_a_rather_long_name_{i}/kernel": np.full(2, i, "f4")
                for i in range(9000)}  # an index of several blocks
    write_tf_checkpoint(tmp_path / "model.ckpt-5", tensors)
    np.savez(tmp_path / "wanted.npz", **{n.replace("/", "|"): a for n, a in tensors.items()})
    program = """if True:
        import sys, numpy as np, tensorflow as tf
        path = tf.train.latest_checkpoint(sys.argv[1])
        reader = tf.train.load_checkpoint(path)
        wanted = np.load(sys.argv[1] + "/wanted.npz")
        assert len(reader.get_variable_to_shape_map()) == len(wanted.files)
        for name in wanted.files:
            found = reader.get_tensor(name.replace("|", "/"))
            assert found.dtype == wanted[name].dtype and np.array_equal(found, wanted[name]), name
    """
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
