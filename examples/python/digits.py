"""Draws pictures of digits, trains a small convolutional network on them, and writes it as ONNX.

    python digits.py FOLDER     writes FOLDER/digits.onnx, and FOLDER/0.pgm to 9.pgm, which it was not trained on

It needs nothing but Python. The convolution has computed filters (lines and edges in four directions); the layer behind
it is trained. classify.py and examples/c/classify.c run the network; examples/classify.sh does everything.
"""

import math
import pathlib
import random
import struct
import sys

SIZE, FILTER, POOL, CLASSES = 16, 5, 4, 10
TRAINED_ON, HELD_OUT, EPOCHS, RATE = 1000, 200, 12, 0.05

FONT = """
 ###    #    ###  #####    #  #####   ##  #####  ###   ###
#   #  ##   #   #    #    ##  #      #        # #   # #   #
#  ##   #       #   #    # #  ####  #        #  #   # #   #
# # #   #      #     #  #  #      # ####    #    ###   ####
##  #   #     #       # #####     # #   #  #    #   #     #
#   #   #    #    #   #    #  #   # #   #  #    #   #    #
 ###   ###  #####  ###     #   ###   ###   #     ###   ##
"""
GLYPHS = [[line.ljust(60)[6 * digit:6 * digit + 5] for line in FONT.strip("\n").split("\n")] for digit in range(CLASSES)]


def draw(digit, rng):
    """A picture of a digit: its own size, place, slant and brightness, and a few spots; rows of numbers from 0 to 255."""
    width, height, slant = rng.uniform(1.5, 2.3), rng.uniform(1.5, 2.0), rng.uniform(-0.25, 0.25)
    left, top = (SIZE - 5 * width) / 2 + rng.uniform(-1.5, 1.5), (SIZE - 7 * height) / 2 + rng.uniform(-1, 1)
    light = rng.randint(170, 255)
    picture = [[0] * SIZE for _ in range(SIZE)]
    for y in range(SIZE):
        for x in range(SIZE):
            row = math.floor((y + 0.5 - top) / height)
            column = math.floor((x + 0.5 - left + slant * (y - SIZE / 2)) / width)
            if 0 <= row < 7 and 0 <= column < 5 and GLYPHS[digit][row][column] == "#":
                picture[y][x] = light
    for _ in range(3):
        picture[rng.randrange(SIZE)][rng.randrange(SIZE)] = rng.randint(80, 255)
    return picture


def filters():
    """Eight filters: waves in four directions, a crest or a slope in the middle."""
    made = []
    for direction in range(4):
        angle = direction * math.pi / 4
        for wave in (math.cos, math.sin):
            cells = []
            for y in range(FILTER):
                for x in range(FILTER):
                    u, v = x - FILTER // 2, y - FILTER // 2
                    across = u * math.cos(angle) + v * math.sin(angle)
                    cells.append(wave(across * math.pi / 2) * math.exp(-(u * u + v * v) / 4))
            mean = sum(cells) / len(cells)
            made.append([cell - mean for cell in cells])
    return made


def features(picture, kernels):
    """What the network computes before its trained layer: convolution, relu, largest value of each square."""
    reach, found = FILTER // 2, []
    lit = [(y, x, picture[y][x] / 255) for y in range(SIZE) for x in range(SIZE) if picture[y][x]]
    for kernel in kernels:
        sums = [[0.0] * (SIZE + 2 * reach) for _ in range(SIZE + 2 * reach)]
        for y, x, light in lit:
            for dy in range(FILTER):
                row, base = sums[y + FILTER - 1 - dy], x + FILTER - 1
                for dx in range(FILTER):
                    row[base - dx] += light * kernel[dy * FILTER + dx]
        for top in range(0, SIZE, POOL):
            for left in range(0, SIZE, POOL):
                square = (max(sums[reach + y][reach + left:reach + left + POOL]) for y in range(top, top + POOL))
                found.append(max(0.0, max(square)))
    return found


def scores(layer, inputs):
    weights, biases = layer
    return [bias + sum(map(float.__mul__, row, inputs)) for row, bias in zip(weights, biases)]


def train(samples, rng):
    """The weights and biases of the last layer: softmax regression by gradient descent, one sample at a time."""
    count = len(samples[0][0])
    weights, biases = [[0.0] * count for _ in range(CLASSES)], [0.0] * CLASSES
    for _ in range(EPOCHS):
        rng.shuffle(samples)
        for inputs, digit in samples:
            found = scores((weights, biases), inputs)
            top = max(found)
            powers = [math.exp(score - top) for score in found]
            total = sum(powers)
            for kind, power in enumerate(powers):
                step = RATE * ((kind == digit) - power / total)
                if abs(step) > 1e-4:
                    weights[kind] = [weight + step * number for weight, number in zip(weights[kind], inputs)]
                    biases[kind] += step
    return weights, biases


# The file format of ONNX is protobuf: fields of numbers, or of bytes with their length before them.


def varint(value):
    data = b""
    while value >= 0x80:
        data, value = data + bytes([value & 0x7F | 0x80]), value >> 7
    return data + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, value):
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def tensor(name, dims, numbers):
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    return b"".join(number(1, size) for size in dims) + number(2, 1) + message(8, name) + message(9, data)


def value(name, dims):
    shape = b"".join(message(1, number(1, size)) for size in dims)
    return message(1, name) + message(2, message(1, number(1, 1) + message(2, shape)))


def node(kind, inputs, output, **attributes):
    body = b"".join(message(1, name) for name in inputs) + message(2, output) + message(3, output) + message(4, kind)
    for name, setting in attributes.items():
        is_list = isinstance(setting, list)
        numbers = b"".join(number(8, one) for one in setting) if is_list else number(3, setting)
        body += message(5, message(1, name) + numbers + number(20, 7 if is_list else 2))
    return body


def onnx(kernels, layer):
    """The network as a file of ONNX."""
    weights, biases = layer
    reach = FILTER // 2
    nodes = [
        node("Conv", ["image", "kernels"], "waves", pads=[reach] * 4, kernel_shape=[FILTER] * 2),
        node("Relu", ["waves"], "crests"),
        node("MaxPool", ["crests"], "squares", kernel_shape=[POOL] * 2, strides=[POOL] * 2),
        node("Flatten", ["squares"], "features"),
        node("Gemm", ["features", "weights", "biases"], "scores", transB=1),
        node("Softmax", ["scores"], "probabilities", axis=1),
    ]
    constants = [
        tensor("kernels", [len(kernels), 1, FILTER, FILTER], sum(kernels, [])),
        tensor("weights", [CLASSES, len(weights[0])], sum(weights, [])),
        tensor("biases", [CLASSES], biases),
    ]
    graph = b"".join(message(1, one) for one in nodes) + message(2, "digits")
    graph += b"".join(message(5, one) for one in constants)
    graph += message(11, value("image", [1, 1, SIZE, SIZE])) + message(12, value("probabilities", [1, CLASSES]))
    return number(1, 8) + message(8, number(2, 17)) + message(7, graph)


def show(pictures):
    """Prints pictures side by side."""
    for y in range(SIZE):
        rows = ["".join(" .+#"[min(3, light * 4 // 200)] for light in picture[y]) for picture in pictures]
        print("|" + "|".join(rows) + "|")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    rng, kernels = random.Random(1), filters()
    samples = [(features(draw(index % CLASSES, rng), kernels), index % CLASSES) for index in range(TRAINED_ON)]
    layer = train(samples, rng)
    right = 0
    for index in range(HELD_OUT):
        found = scores(layer, features(draw(index % CLASSES, rng), kernels))
        right += found.index(max(found)) == index % CLASSES
    print(f"trained on {TRAINED_ON} pictures; of {HELD_OUT} others, {right} are recognised")
    (folder / "digits.onnx").write_bytes(onnx(kernels, layer))
    pictures = [draw(digit, rng) for digit in range(CLASSES)]
    for digit, picture in enumerate(pictures):
        (folder / f"{digit}.pgm").write_bytes(f"P5 {SIZE} {SIZE} 255\n".encode() + bytes(sum(picture, [])))
    show(pictures[:5])
    show(pictures[5:])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python digits.py FOLDER")
    main(pathlib.Path(sys.argv[1]))
