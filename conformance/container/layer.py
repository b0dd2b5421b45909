"""The layers of the image above its packages, made in a mount namespace that ends with this program.

    layer.py BASE DIR BINARY
"""

import pathlib
import subprocess
import sys

import image


def main():
    base, directory, binary = sys.argv[1:]
    directory = pathlib.Path(directory)
    root, upper, work = directory / "root", directory / "upper", directory / "work"
    for each in (root, upper, work):
        each.mkdir()
    options = f"lowerdir={base},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "-o", options, "image", root], check=True)
    _, rest = image.first_layers(image.last_stage())
    image.carry_out(rest, root, binary)


main()
