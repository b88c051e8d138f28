"""Make what is missing for other programs' servers, once; needs cmake and a C++ compiler.

    python -m benchmarks.peers.setup --environments ENVIRONMENTS --models MODELS     # first
    python -m benchmarks.http.setup --environments ENVIRONMENTS

llama.cpp's server is built from the sources that come with llama-cpp-python (ten minutes on two cores). OpenVINO's environment
gets the packages of the minimal server: tokenizers and jinja2.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from benchmarks.http.setup.llama_server import build_llama_server
from benchmarks.peers.layout import python_of

_OPENVINO_NEEDS = ("tokenizers", "jinja2")


def main() -> None:
    """Make what is missing."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environments", type=Path, required=True, help="folder of virtual environments")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once")
    args = parser.parse_args()
    build_llama_server(args.environments, jobs=args.jobs)
    openvino = python_of(args.environments, "openvino")
    subprocess.run([openvino, "-m", "pip", "install", "--quiet", *_OPENVINO_NEEDS], check=True)


if __name__ == "__main__":
    main()
