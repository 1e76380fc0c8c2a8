"""Draws a curve to a PNG file with nothing but the standard library."""

import struct
import zlib

WIDTH, HEIGHT, MARGIN = 640, 360, 40
WHITE, GREY, BLACK, BLUE = (255, 255, 255), (225, 225, 225), (60, 60, 60), (30, 90, 200)
# Five rows of three pixels for each character, a bit a pixel.
GLYPHS = {
    "0": 0o75557, "1": 0o26227, "2": 0o71747, "3": 0o71717, "4": 0o55711, "5": 0o74717, "6": 0o74757, "7": 0o71244, "8": 0o75757, "9": 0o75717,
    ".": 0o00002, "-": 0o00700, "+": 0o02720, "e": 0o25746,
}  # fmt: skip


def draw(path, values):
    """Writes `values` over their index as a line, on a grid of ten by five; the frame spans least to greatest. The two stand
    above and below it on the left, the last index on the right."""
    pixels = [[WHITE] * WIDTH for _ in range(HEIGHT)]
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def position(index, value):
        x = MARGIN + index * (WIDTH - 2 * MARGIN) / max(len(values) - 1, 1)
        y = HEIGHT - MARGIN - (value - low) * (HEIGHT - 2 * MARGIN) / span
        return round(x), round(y)

    def line(start, end, colour, half_width=0):
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for step in range(steps + 1):
            x, y = x0 + (x1 - x0) * step // steps, y0 + (y1 - y0) * step // steps
            for dy in range(-half_width, half_width + 1):
                if 0 <= y + dy < HEIGHT:
                    pixels[y + dy][x] = colour

    def label(number, left, top):
        text = f"{number:.4g}"
        for place, glyph in enumerate(text):
            for bit in range(15):
                if GLYPHS.get(glyph, 0) >> (14 - bit) & 1:
                    x, y = left + 8 * place + 2 * (bit % 3), top + 2 * (bit // 3)
                    for at in (y, y + 1):
                        pixels[at][x : x + 2] = [BLACK] * 2

    right, bottom = WIDTH - MARGIN, HEIGHT - MARGIN
    for step in range(11):
        x = MARGIN + step * (right - MARGIN) // 10
        line((x, MARGIN), (x, bottom), GREY)
    for step in range(6):
        y = MARGIN + step * (bottom - MARGIN) // 5
        line((MARGIN, y), (right, y), GREY)
    line((MARGIN, MARGIN), (MARGIN, bottom), BLACK)
    line((MARGIN, bottom), (right, bottom), BLACK)
    label(high, MARGIN, MARGIN - 16)
    label(low, MARGIN, bottom + 8)
    label(len(values) - 1, right - 16, bottom + 8)
    points = [position(index, value) for index, value in enumerate(values)]
    for start, end in zip(points, points[1:]):
        line(start, end, BLUE, half_width=1)

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = b"".join(b"\0" + bytes(channel for pixel in row for channel in pixel) for row in pixels)
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))
