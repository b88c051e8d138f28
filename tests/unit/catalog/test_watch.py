from onnxgen.catalog.watch import GrowthMeter, largest_file


class Task:
    done = 0

    def advance(self, amount):
        assert amount > 0
        self.done += amount


def meter_of(sizes, *, total):
    task = Task()
    return task, GrowthMeter(task, iter(sizes).__next__, total=total)


def test_progress_never_goes_back_or_beyond_its_total():
    task, meter = meter_of([0, 40, 30, 70, 900], total=100)
    seen = []
    for _ in range(5):
        meter.poll()
        seen.append(task.done)
    assert seen == [0, 40, 40, 70, 100]
    meter.finish()
    assert task.done == 100


def test_finishing_reports_the_rest():
    task, meter = meter_of([10], total=100)
    meter.poll()
    meter.finish()
    assert task.done == 100


def test_without_a_total_growth_is_reported_as_it_is():
    task, meter = meter_of([10, 25], total=None)
    meter.poll()
    meter.poll()
    meter.finish()
    assert task.done == 25


def test_the_largest_file_of_several_folders_counts(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(bytes(10))
    (tmp_path / "a" / "b" / "two").write_bytes(bytes(20))
    assert largest_file(tmp_path / "a", tmp_path / "nowhere") == 20
    assert largest_file(tmp_path / "nowhere") == 0
