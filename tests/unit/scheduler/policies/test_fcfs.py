"""First come, first served."""

import random

from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.config import SchedulerConfig
from scheduling_loop import Loop


def test_admission_is_in_the_order_of_arrival_whatever_the_sizes():
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    loop = Loop(SchedulerConfig(max_seqs=3), PoolShape(num_blocks=20, block_size=4))
    runs = []
    for _ in range(25):
        prompt = rng.randint(1, 60)
        runs.append(
            loop.add(prompt, prompt + rng.randint(1, 15), priority=rng.randint(0, 3), tenant=rng.choice("ab"))
        )
        loop.step()
    loop.run(bound=3_000)
    admitted = [run.admitted for run in runs]
    assert admitted == sorted(admitted)
