"""Draws a curve to a PNG file with nothing but the standard library."""

import struct
import zlib

WIDTH, HEIGHT, MARGIN = 640, 360, 40
WHITE, GREY, BLACK, BLUE = (255, 255, 255), (225, 225, 225), (60, 60, 60), (30, 90, 200)


def draw(path, values):
    """Writes `values` over their index as a line, on a grid of ten by five; the frame spans least to greatest."""
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

    right, bottom = WIDTH - MARGIN, HEIGHT - MARGIN
    for step in range(11):
        x = MARGIN + step * (right - MARGIN) // 10
        line((x, MARGIN), (x, bottom), GREY)
    for step in range(6):
        y = MARGIN + step * (bottom - MARGIN) // 5
        line((MARGIN, y), (right, y), GREY)
    line((MARGIN, MARGIN), (MARGIN, bottom), BLACK)
    line((MARGIN, bottom), (right, bottom), BLACK)
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
