"""Limits of containers, on made-up control groups."""

import pytest

from onnxgen.foundations.cgroups import cpu_quota, memory_limit

V2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw"
V1 = (
    "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /home/x rw - ext4 /dev/sda rw"
)


def system(root, *, mounts, groups, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounts + "\n")
    (root / "proc/self/cgroup").write_text(groups + "\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_no_control_groups_means_no_limits(tmp_path):
    assert cpu_quota(tmp_path) is None
    assert memory_limit(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000", 1.5), ("50000 100000", 0.5), ("max 100000", None)]
)
def test_version_2(tmp_path, text, quota):
    system(tmp_path, mounts=V2, groups="0::/", files={"cpu.max": text})
    assert cpu_quota(tmp_path) == quota


def test_the_tightest_group_above_counts(tmp_path):
    system(
        tmp_path,
        mounts=V2,
        groups="0::/user.slice/app.service",
        files={"user.slice/cpu.max": "200000 100000", "user.slice/app.service/cpu.max": "max 100000"},
    )
    assert cpu_quota(tmp_path) == 2.0


@pytest.mark.parametrize("root", ["/", "/docker/cafe"])
def test_version_1_seen_from_outside_and_from_inside(tmp_path, root):
    inside = "" if root != "/" else "docker/cafe/"
    system(
        tmp_path,
        mounts=V1.format(root=root),
        groups="5:memory:/docker/cafe\n3:cpu,cpuacct:/docker/cafe\n0::/",
        files={
            f"cpu,cpuacct/{inside}cpu.cfs_quota_us": "300000",
            f"cpu,cpuacct/{inside}cpu.cfs_period_us": "100000",
            f"memory/{inside}memory.limit_in_bytes": "1000",
            f"memory/{inside}memory.usage_in_bytes": "400",
            f"memory/{inside}memory.stat": "cache 300\ntotal_inactive_file 100",
        },
    )
    assert cpu_quota(tmp_path) == 3.0
    assert memory_limit(tmp_path) == (1000, 700)


def test_version_1_without_a_limit(tmp_path):
    system(
        tmp_path,
        mounts=V1.format(root="/"),
        groups="5:memory:/\n3:cpu,cpuacct:/",
        files={
            "cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
            "memory/memory.limit_in_bytes": "9223372036854771712",
            "memory/memory.usage_in_bytes": "400",
        },
    )
    assert cpu_quota(tmp_path) is None
    assert memory_limit(tmp_path) is None


def test_memory_of_version_2(tmp_path):
    system(
        tmp_path,
        mounts=V2,
        groups="0::/",
        files={"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 100\ninactive_file 250"},
    )
    assert memory_limit(tmp_path) == (1000, 350)


def test_more_used_than_allowed_leaves_nothing(tmp_path):
    system(tmp_path, mounts=V2, groups="0::/", files={"memory.max": "1000", "memory.current": "1200"})
    assert memory_limit(tmp_path) == (1000, 0)
