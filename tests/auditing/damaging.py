"""Ways to damage a file: flipped, moved, deleted and inserted bytes; edited headers and records that still parse."""

import io
import json
import pickletools
import struct
import zipfile
import zlib

from hypothesis import strategies as st

SIZES = [0, 1, 7, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
VALUES = st.one_of(
    st.sampled_from([None, True, "", "x", "../../x", "\x1b[2J", "x" * 5000, [], {}, [[]], -1, 0, 1, 1.5, 1e308, 10**30,
                     float("nan"), float("inf"), 2**31, 2**40, 2**63, "nan", "\ud800", [1, 2], {"a": 1}]),
    st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(-2, 2**33), max_size=4),
)  # fmt: skip
_BYTES = [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x80", b"PK", b"{", b"9999"]
_SHAPES = ["(6, 4)", "(10000000000, 4)", "(-1, 4)", "()", "(4,)", f"({10**30},)", "(2, 3, 2, 2)", "('a',)", "(0, 4)",
           "(1.5, 2)", "6", "(" * 500, "[6, 4]", "(True, 24)"]  # fmt: skip
_KINDS = ["<f8", "<f4", "|u1", "|O", "<U4", "<c8", ">f8", "|V8", "<M8[ns]", "x", "", "<f999999999", "<f16"]


def _place(draw, content):
    return draw(st.integers(0, max(0, len(content) - 1)))


@st.composite
def damaged(draw, whole):
    """The bytes with one to four damages, or unrelated bytes."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = _place(draw, content)
        kind = draw(st.sampled_from(["flip", "set", "number", "cut", "insert", "remove", "repeat", "noise"]))
        if kind == "flip" and content:
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set":
            content[at : at + 4] = draw(
                st.sampled_from([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x80", b"PK", b"{", b"9999"])
            )
        elif kind == "number":
            width = draw(st.sampled_from([2, 4, 8]))
            number = draw(st.sampled_from(SIZES)) % 256**width
            content[at : at + width] = number.to_bytes(width, draw(st.sampled_from(["little", "big"])))
        elif kind == "cut":
            del content[at:]
        elif kind == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=40))
        elif kind == "remove":
            del content[at : at + draw(st.integers(1, 64))]
        elif kind == "repeat":
            content[at:at] = content[at : at + draw(st.integers(1, 64))] * draw(st.integers(1, 3))
        elif kind == "noise" and draw(st.integers(0, 3)) == 0:
            content = bytearray(draw(st.binary(max_size=200)))
    return bytes(content)


@st.composite
def edited(draw, value):
    """A JSON value with one or two of its parts replaced, removed or added."""
    value = json.loads(json.dumps(value))
    for _ in range(draw(st.integers(1, 2))):
        inner = value
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if not isinstance(inner[key], (dict, list)) or draw(st.integers(0, 2)) == 0:
                if draw(st.integers(0, 4)) == 0:
                    del inner[key]
                else:
                    inner[key] = draw(VALUES)
                break
            inner = inner[key]
        if isinstance(inner, dict) and draw(st.integers(0, 5)) == 0:
            inner[draw(st.text(max_size=3))] = draw(VALUES)
    return value


@st.composite
def edited_safetensors(draw, whole):
    """A safetensors file whose header was edited, with its true length or a false one."""
    length = int.from_bytes(whole[:8], "little")
    header = json.dumps(draw(edited(json.loads(whole[8 : 8 + length])))).encode("utf-8", "surrogatepass")
    claimed = draw(st.sampled_from([len(header)] * 4 + [min(size, 2**64 - 1) for size in SIZES]))
    return struct.pack("<Q", claimed) + header + whole[8 + length :]


@st.composite
def edited_json(draw, whole):
    """A JSON file with other values, or deep in brackets."""
    if draw(st.integers(0, 15)) == 0:
        return draw(st.sampled_from([b"[", b'{"a":'])) * 100_000
    return json.dumps(draw(edited(json.loads(whole)))).encode()


def _numbers_replaced(draw, pickled):
    """A pickle in which one integer is replaced."""
    found = [(code.name, at) for code, _, at in pickletools.genops(pickled) if code.name.startswith("BININT")]
    name, at = draw(st.sampled_from(found))
    length = {"BININT1": 2, "BININT2": 3, "BININT": 5}[name]
    number = draw(st.one_of(st.sampled_from([*SIZES, -1, -(2**40)]), st.integers(-3, 100)))
    raw = number.to_bytes(9, "little", signed=True)
    return pickled[:at] + b"\x8a" + bytes([len(raw)]) + raw + pickled[at + length :]


@st.composite
def rezipped(draw, whole, numbers_in="data.pkl"):
    """A zip file with valid checksums, in which records were damaged, dropped, renamed, doubled or compressed."""
    target = io.BytesIO()
    packing = draw(st.sampled_from([zipfile.ZIP_STORED] * 3 + [zipfile.ZIP_DEFLATED]))
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(target, "w", packing) as new:
        chosen = draw(st.sampled_from(old.namelist()))
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(numbers_in) and draw(st.booleans()):
                content = _numbers_replaced(draw, content)
            elif name == chosen:
                kind = draw(st.sampled_from(["damage", "damage", "drop", "rename", "twice"]))
                if kind == "drop":
                    continue
                content = draw(damaged(content)) if kind == "damage" else content
                if kind == "twice":
                    new.writestr(name + "x", content)
                name = draw(st.sampled_from(["../x", "archive/code/x", "x", name])) if kind == "rename" else name
            new.writestr(name, content)
    return target.getvalue()


@st.composite
def edited_npy(draw, whole):
    """An .npy file with an edited header of the right length."""
    length = int.from_bytes(whole[8:10], "little")
    header = whole[10 : 10 + length].decode()
    shape, kind = draw(st.sampled_from(_SHAPES)), draw(st.sampled_from(_KINDS))
    header = header.replace("(6, 4)", shape).replace("<f8", kind).rstrip() + "\n"
    return whole[:8] + struct.pack("<H", len(header)) + header.encode() + whole[10 + length :]


@st.composite
def edited_png(draw, whole):
    """A PNG file with one damaged chunk and valid checksums."""
    chunks, at = [], 8
    while at < len(whole):
        length = int.from_bytes(whole[at : at + 4], "big")
        chunks.append((whole[at + 4 : at + 8], whole[at + 8 : at + 8 + length]))
        at += 12 + length
    chosen = draw(st.integers(0, len(chunks) - 1))
    parts = [whole[:8]]
    for number, (name, content) in enumerate(chunks):
        if number == chosen:
            content = draw(damaged(content))
            name = draw(st.sampled_from([name, name, b"IHDR", b"PLTE", b"tRNS", b"iCCP", b"zTXt", b"acTL", b"IEND"]))
        parts += [struct.pack(">I", len(content)), name, content, struct.pack(">I", zlib.crc32(name + content))]
    return b"".join(parts)
