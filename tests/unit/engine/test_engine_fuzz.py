"""Random runs of the engine: whatever happens, every request ends once, with the answer that it has alone.

``ENGINE_FUZZ_SECONDS`` makes the loop longer; ``ENGINE_FUZZ_SEED`` repeats one run.
"""

import os
import random
import time

from engine_runs import RandomRun

_SECONDS = float(os.environ.get("ENGINE_FUZZ_SECONDS", "12"))
_SEED = os.environ.get("ENGINE_FUZZ_SEED")


def test_random_runs_end_with_the_answers_of_requests_alone(tmp_path):
    seeds = random.SystemRandom()
    until = time.monotonic() + _SECONDS
    runs = guessed = accepted = 0
    while runs == 0 or (time.monotonic() < until and _SEED is None):
        seed = int(_SEED) if _SEED is not None else seeds.randrange(1 << 48)
        folder = tmp_path / str(runs)
        folder.mkdir()
        run = RandomRun(seed, folder)
        try:
            outcome = run.run()
        except BaseException:
            print(f"ENGINE_FUZZ_SEED={seed}\n{run.describe()}")
            raise
        runs += 1
        guessed += outcome.guessed
        accepted += outcome.accepted
    print(f"{runs} runs, {accepted} of {guessed} draft tokens accepted")
